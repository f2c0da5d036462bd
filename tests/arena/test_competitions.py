import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest
from sqlalchemy import update

from clvlab.agents.registry import TEMPLATES
from clvlab.api.competitions import CompetitionSummaryResponse
from clvlab.arena.application import Application
from clvlab.arena.competitions.competitions import CompetitionFilter
from clvlab.arena.competitions.requests import AgentEntry, CompetitionConfig, CompetitionStatus
from clvlab.arena.packs import bundled_catalog
from clvlab.errors import (
    AlreadyRegisteredError,
    BindingError,
    EntryError,
    NotDeletableError,
    NotOwnerError,
    NotStartableError,
    RosterFrozenError,
    RosterFullError,
    RunFailedError,
    TransitionError,
    UnknownCompetitionError,
    UnknownEntryError,
    UnknownInstanceError,
)
from clvlab.store import tables
from tests.factories import ALICE, BOB, make_competition
from tests.waiting import PATIENCE_S

BOTH = ("baseline", "cumulative-drift")
PINNED = {
    "strategy": "baseline", "source_mode": "replay", "pack_id": "starter", "stake": 70, "market_allowlist": ["1X2"],
    "cooldown_s": 60, "params": {"min_prob_bps": 5500, "mood": 0.5},
}  # fmt: skip


def entry(agent_id="a", strategy="baseline", **fields):
    return AgentEntry(agent_id=agent_id, strategy=strategy, **fields)


def register_misfit(application, competition_id):
    """Put an agent ``model`` on a roster that fails when it is asked, as an earlier version took it."""
    application.competitions.register(ALICE, competition_id, entry("model", "llm"))
    beyond = {"fixture_id": 90000000, "tick_seq": 10**6, "action": "WAIT"}
    with application._database.write() as connection:
        of_model = update(tables.roster).where(
            tables.roster.c.competition_id == competition_id, tables.roster.c.agent_id == "model"
        )
        connection.execute(of_model.values(config={"transcript": [beyond]}))


def test_a_competition_goes_from_draft_to_a_verified_run(application):
    competitions = application.competitions
    competition_id = make_competition(application, *BOTH)
    before = competitions.state(competition_id)

    started = competitions.start(ALICE, competition_id)

    assert (before["status"], before["run_id"], before["proof_card"], before["latest_seq"]) == ("draft", None, None, 0)
    assert before["anchor_status"] == "not_anchored"
    assert (started["status"], started["replay_binding"]) == ("finalized", before["replay_binding"])
    after = competitions.state(competition_id)
    assert after["run_id"] == started["run_id"] == after["proof_card"]["run"]["run_id"]
    assert after["proof_card"]["run"]["status"] == "sealed"
    assert application.runs.verify(started["run_id"])["verified"]
    assert set(after["proof_card"]["checks"].values()) == {"pass", "not_applicable"}
    listed = competitions.page(CompetitionFilter(CompetitionStatus.FINALIZED))[0]
    assert listed == [{name: after[name] for name in CompetitionSummaryResponse.__annotations__}]
    assert (
        (before["owner"], before["created_ts_ms"])
        == (after["owner"], after["created_ts_ms"])
        == (ALICE, listed[0]["created_ts_ms"])
    )
    assert before["created_ts_ms"] <= before["updated_ts_ms"] <= after["updated_ts_ms"]
    assert after["updated_ts_ms"] >= after["proof_card"]["run"]["sealed_ts_ms"]
    assert competitions.page(CompetitionFilter(CompetitionStatus.DRAFT)) == ([], None)


def test_the_log_starts_at_0_counts_without_gaps_and_the_leaderboard_is_its_score_updates(application):
    competition_id = make_competition(application, *BOTH)
    application.competitions.start(ALICE, competition_id)

    log = application.competitions.events(competition_id, -1)
    state = application.competitions.state(competition_id)

    assert [event["seq"] for event in log] == list(range(len(log)))
    assert log[0]["kind"] == "COMPETITION_STARTED"
    assert [event["kind"] for event in log[-4:]] == ["SCORE_UPDATE", "SCORE_UPDATE", "PROOF_ANCHOR", "COMPETITION_FINALIZED"]
    assert set(log[0]) == {"seq", "kind", "competition_id", "run_id", "ts", "evidence", "payload"}
    assert state["latest_seq"] == log[-1]["seq"]
    updates = [event["payload"] for event in log if event["kind"] == "SCORE_UPDATE"]
    assert [row.items() <= update.items() for row, update in zip(state["leaderboard"], updates, strict=True)] == [True, True]
    means = [row["mean_clv_bps"] for row in state["leaderboard"]]
    assert means == sorted(means, reverse=True)
    assert application.competitions.events(competition_id) == log[1:]
    assert application.competitions.events(competition_id, log[-3]["seq"]) == log[-2:]
    assert application.competitions.events(competition_id, -1, limit=3) == log[:3]


def test_events_of_a_run_restate_the_sealed_decisions(in_memory):
    competition_id = make_competition(in_memory, *BOTH)
    run_id = in_memory.competitions.start(ALICE, competition_id)["run_id"]

    log = in_memory.competitions.events(competition_id, -1)

    for kind, field in (("AGENT_ACTION", "agent_action"), ("LAW_RESULT", "recompute")):
        said = [event["payload"] for event in log if event["kind"] == kind]
        assert said
        for payload in said:
            record = in_memory.runs.inspect(run_id, payload["run_seq"])
            assert payload["agent_id"] == record["agent_id"]
            if field == "agent_action":
                assert payload["action"] == record["agent_action"]
            else:
                assert payload["clv_bps"] == record["recompute"]["clv_bps"]


def test_every_template_competes_and_verifies(in_memory):
    competition_id = make_competition(in_memory, *TEMPLATES, roster_size=len(TEMPLATES))

    run_id = in_memory.competitions.start(ALICE, competition_id)["run_id"]

    assert len(in_memory.competitions.state(competition_id)["leaderboard"]) == len(TEMPLATES)
    checks = in_memory.runs.verify(run_id)["checks"]
    assert set(checks.values()) == {"pass", "not_applicable"}


def test_agents_score_alike_in_any_order_of_registration(in_memory):
    boards = []
    for roster in (BOTH, BOTH[::-1]):
        competition_id = make_competition(in_memory, *roster)
        in_memory.competitions.start(ALICE, competition_id)
        boards.append(in_memory.competitions.state(competition_id)["leaderboard"])

    assert boards[0] == boards[1]


def test_the_binding_is_frozen_at_creation_and_defaults_to_the_lowest_fixture(application):
    competition_id = make_competition(application)
    other = make_competition(application, fixture_id=90000003)

    binding = application.competitions.state(competition_id)["replay_binding"]

    assert binding["fixture_id"] == min(bundled_catalog().open("starter").fixture_ids)
    assert binding["content_hash"] == bundled_catalog().open("starter").content_hash
    assert application.competitions.state(other)["replay_binding"]["fixture_id"] == 90000003


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"pack_id": "absent"}, "absent"), ({"fixture_id": 7}, "fixture 7"), ({"pack_id": None, "fixture_id": 7}, "pack_id")],
)
def test_a_binding_that_does_not_resolve_is_refused_at_creation(in_memory, fields, message):
    with pytest.raises(BindingError, match=message):
        make_competition(in_memory, **fields)

    assert in_memory.competitions.page() == ([], None)


def test_without_a_pack_the_only_one_of_the_catalog_is_bound_for_good(one_pack):
    application = Application(catalog=one_pack)
    competition_id = make_competition(application, "baseline", pack_id=None)

    assert application.competitions.state(competition_id)["replay_binding"] is None
    started = application.competitions.start(ALICE, competition_id)

    assert started["replay_binding"]["pack_id"] == "starter"
    assert application.competitions.state(competition_id)["replay_binding"] == started["replay_binding"]
    application.close()


def test_a_tampered_pack_is_not_there_where_a_pack_is_left_out(one_sound_pack):
    application = Application(catalog=one_sound_pack)
    competition_id = make_competition(application, "baseline", pack_id=None)

    started = application.competitions.start(ALICE, competition_id)
    deployed = application.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "replay"})

    assert started["replay_binding"] == deployed["replay_binding"]
    assert started["replay_binding"]["pack_id"] == "starter"
    with pytest.raises(BindingError, match="unknown or unverified"):
        make_competition(application, pack_id="season")
    application.close()


def test_without_a_verified_pack_nothing_starts(one_pack):
    application = Application(catalog=one_pack)
    competition_id = make_competition(application, "baseline", pack_id=None)
    (one_pack.folder / "starter" / "ticks.parquet").write_bytes(b"other ticks")

    with pytest.raises(NotStartableError, match="0 verified packs") as refused:
        application.competitions.start(ALICE, competition_id)

    assert refused.value.reason == "binding_missing"
    application.close()


def test_without_a_pack_and_with_several_to_choose_from_nothing_starts(in_memory):
    competition_id = make_competition(in_memory, "baseline", pack_id=None)

    with pytest.raises(NotStartableError, match="names no pack") as refused:
        in_memory.competitions.start(ALICE, competition_id)

    assert refused.value.reason == "binding_missing"
    assert in_memory.competitions.state(competition_id)["status"] == "draft"


def test_a_pack_that_changed_since_creation_stops_the_start_and_nothing_else(one_pack):
    application = Application(catalog=one_pack)
    competition_id = make_competition(application, "baseline")
    (one_pack.folder / "starter" / "ticks.parquet").write_bytes(b"other ticks")

    with pytest.raises(NotStartableError) as refused:
        application.competitions.start(ALICE, competition_id)

    assert refused.value.reason == "binding_changed"
    assert str(one_pack.folder) not in str(refused.value)
    state = application.competitions.state(competition_id)
    assert (state["status"], state["latest_seq"]) == ("draft", 0)
    application.close()


@pytest.mark.parametrize(
    ("fields", "reason"), [({}, "roster_empty"), ({"source_mode": "live", "pack_id": None}, "no_live_feed")]
)
def test_what_can_not_run_does_not_start(in_memory, fields, reason):
    roster = ("baseline",) if fields else ()
    competition_id = make_competition(in_memory, *roster, **fields)

    with pytest.raises(NotStartableError) as refused:
        in_memory.competitions.start(ALICE, competition_id)

    assert refused.value.reason == reason
    assert in_memory.competitions.state(competition_id)["status"] == "draft"


def test_only_the_owner_changes_a_competition(application):
    competition_id = make_competition(application, "baseline")

    for act in (
        lambda: application.competitions.register(BOB, competition_id, entry("b")),
        lambda: application.competitions.start(BOB, competition_id),
        lambda: application.competitions.open(BOB, competition_id),
    ):
        with pytest.raises(NotOwnerError):
            act()
    with pytest.raises(UnknownCompetitionError):
        application.competitions.start(ALICE, "comp_absent")
    with pytest.raises(UnknownCompetitionError):
        application.competitions.events("comp_absent")


def test_open_and_complete_are_steps_of_the_owner(application):
    competition_id = make_competition(application, "baseline")

    assert application.competitions.open(ALICE, competition_id)["status"] == "open"
    application.competitions.register(ALICE, competition_id, entry("b"))
    with pytest.raises(TransitionError):
        application.competitions.open(ALICE, competition_id)
    with pytest.raises(TransitionError):
        application.competitions.complete(ALICE, competition_id)
    application.competitions.start(ALICE, competition_id)
    assert application.competitions.complete(ALICE, competition_id)["status"] == "completed"
    with pytest.raises(NotStartableError) as refused:
        application.competitions.start(ALICE, competition_id)
    assert refused.value.reason == "not_startable"


def test_a_roster_refuses_twice_the_same_too_many_and_anyone_after_the_start(application):
    competition_id = make_competition(application, "baseline")

    with pytest.raises(AlreadyRegisteredError):
        application.competitions.register(ALICE, competition_id, entry("baseline"))
    application.competitions.register(ALICE, competition_id, entry("b"))
    with pytest.raises(RosterFullError):
        application.competitions.register(ALICE, competition_id, entry("c"))
    with pytest.raises(AlreadyRegisteredError):
        application.competitions.register(ALICE, competition_id, entry("b"))
    application.competitions.start(ALICE, competition_id)
    with pytest.raises(RosterFrozenError):
        application.competitions.register(ALICE, competition_id, entry("b"))


def test_a_registration_pins_the_hash_that_the_run_then_seals(application):
    competition_id = make_competition(application)

    known = application.competitions.register(ALICE, competition_id, entry("a", config={"min_prob_bps": 6000}))
    odd = application.competitions.register(ALICE, competition_id, entry("b", config={"min_prob_bps": 6000, "mood": 0.5}))
    run_id = application.competitions.start(ALICE, competition_id)["run_id"]

    sealed = {agent["agent_id"]: agent["config_hash"] for agent in application.runs.card(run_id)["lineage"]["agents"]}
    assert sealed == {"a": known["config_hash"], "b": odd["config_hash"]}
    assert known["config_hash"] != odd["config_hash"]
    agents = application.competitions.events(competition_id, -1)[0]["payload"]["agents"]
    assert [agent["unused_keys"] for agent in agents] == [[], ["mood"]]


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("reproducible", "reproducible"),
        ("Deterministic", "reproducible"),
        ("EVIDENCE_verified", "verified"),
        ("llm", "verified"),
        ("LLM/evidence-verified", "verified"),
        ("llm / Evidence Verified", "verified"),
        ("LLM evidence_verified", "verified"),
        ("deterministic/reproducible", "reproducible"),
    ],
)
def test_proof_modes_are_normalized(in_memory, spelled, canonical):
    competition_id = make_competition(in_memory)

    assert in_memory.competitions.register(ALICE, competition_id, entry(proof_mode=spelled))["proof_mode"] == canonical


@pytest.mark.parametrize(
    "bad",
    [
        {"proof_mode": "trust-me"},
        {"proof_mode": "llm/reproducible"},
        {"proof_mode": "verified/"},
        {"proof_mode": ""},
        {"strategy": "absent"},
        {"config": {"stake": -1}},
        {"config": {"stake": "many"}},
        {"config": {"mood": 2**60}},
        {"config": {"mood": float("nan")}},
    ],
)
def test_entries_that_can_not_be_taken_leave_the_roster_as_it_was(in_memory, bad):
    competition_id = make_competition(in_memory)

    with pytest.raises(EntryError):
        in_memory.competitions.register(ALICE, competition_id, entry(**bad))

    assert in_memory.competitions.state(competition_id)["roster"] == []


def test_an_entry_may_stand_for_an_instance_of_its_owner(application):
    deployed = application.deploys.deploy(
        ALICE, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter", "params": {"min_prob_bps": 5500}}
    )
    competition_id = make_competition(application)
    own = entry("a", instance_id=deployed["instance_id"])

    answered = application.competitions.register(ALICE, competition_id, own)
    run_id = application.competitions.start(ALICE, competition_id)["run_id"]

    assert answered["config_hash"] == deployed["config_hash"]
    assert application.runs.card(run_id)["lineage"]["config_hash"] == deployed["config_hash"]
    assert application.runs.card(run_id)["checks"]["manifest_bound"] == "pass"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"min_prob_bps": 5500},
        {"min_prob_bps": 5500, "stake": 70, "markets": ["1X2"], "mood": "0.5"},
        {"market_allowlist": ["1X2"], "cooldown_s": 60},
        {"params": {"min_prob_bps": 5500, "markets": ["1X2"], "stake": 70, "warmup_ticks": 0, "mood": 0.5}, "stake": 70},
    ],
)
def test_a_config_beside_an_instance_may_repeat_it_in_part_or_whole(in_memory, config):
    deployed = in_memory.deploys.deploy(ALICE, PINNED)
    competition_id = make_competition(in_memory)

    answered = in_memory.competitions.register(ALICE, competition_id, entry(instance_id=deployed["instance_id"], config=config))

    assert answered["config_hash"] == deployed["config_hash"]
    whole = in_memory.competitions.state(competition_id)["roster"][0]["config"]
    assert in_memory.competitions.register(
        ALICE, competition_id, entry("b", instance_id=deployed["instance_id"], config=whole)
    ) == answered | {"agent_id": "b"}


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"min_prob_bps": 5501}, "min_prob_bps"),
        ({"warmup_ticks": 1, "min_prob_bps": 5500}, "warmup_ticks"),
        ({"stake": True}, "stake"),
        ({"stake": 70.0, "min_prob_bps": 5500}, "stake"),
        ({"mood": 2**60}, "mood"),
        ({"mood": float("nan")}, "mood"),
        ({"absent": None}, "absent"),
        ({"cooldown_s": 60, "market_allowlist": ["OU"]}, "market_allowlist"),
        ({"cooldown_s": 60, "params": {}}, "params"),
    ],
)
def test_a_config_beside_an_instance_that_says_something_else_is_refused(in_memory, config, key):
    instance_id = in_memory.deploys.deploy(ALICE, PINNED)["instance_id"]
    competition_id = make_competition(in_memory)

    with pytest.raises(EntryError, match=f"config.{key} "):
        in_memory.competitions.register(ALICE, competition_id, entry(instance_id=instance_id, config=config))

    assert in_memory.competitions.state(competition_id)["roster"] == []


def test_names_that_nothing_reads_are_told_and_change_no_hash(in_memory):
    body = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2}
    odd = CompetitionConfig.model_validate(body | {"pack_id": "starter", "owner": BOB, "\ud800": 1})
    config = {"min_prob_bps": 6000, "mood": 0.5}
    plain = AgentEntry.model_validate({"agent_id": "a", "strategy": "baseline"})
    told = AgentEntry.model_validate({"agent_id": "b", "strategy": "baseline", "config": config, "cfg": {}, "": None})

    created = in_memory.competitions.create(ALICE, odd)
    registered = [in_memory.competitions.register(ALICE, created["competition_id"], one) for one in (plain, told)]

    assert created["ignored"] == ["\\ud800", "owner"]
    assert "ignored" not in registered[0]
    assert registered[1]["ignored"] == ["", "cfg", "config.mood"]
    assert [answer["config_hash"] for answer in registered] == [
        "sha256:43708ec6a24868d607750d4f2a73f33ca3b9dd27b3155e02cde41eb3634395ed",
        "sha256:2658650f61826f106861184ff1e6e656f106bdf232958f40a72bc7c813301d32",
    ]
    state = in_memory.competitions.state(created["competition_id"])
    assert "owner" not in state["config"]
    assert state["roster"][1]["config"] == config


def test_an_instance_must_exist_belong_to_the_caller_and_be_of_the_strategy(application):
    theirs = application.deploys.deploy(BOB, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"})[
        "instance_id"
    ]
    own = application.deploys.deploy(ALICE, {"strategy": "baseline", "source_mode": "replay", "pack_id": "starter"})[
        "instance_id"
    ]
    competition_id = make_competition(application)

    for instance_id, strategy, error in (
        ("inst_absent", "baseline", UnknownInstanceError),
        (theirs, "baseline", NotOwnerError),
        (own, "cumulative-drift", EntryError),
    ):
        with pytest.raises(error):
            application.competitions.register(ALICE, competition_id, entry("a", strategy, instance_id=instance_id))


def test_of_fifty_concurrent_starts_one_wins(application):
    competition_id = make_competition(application, *BOTH)

    def start(_):
        try:
            return application.competitions.start(ALICE, competition_id)["status"]
        except NotStartableError as error:
            return error.reason

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(start, range(50)))

    assert sorted(answers) == ["finalized"] + ["not_startable"] * 49
    kinds = [event["kind"] for event in application.competitions.events(competition_id, -1)]
    assert kinds.count("COMPETITION_STARTED") == kinds.count("COMPETITION_FINALIZED") == 1


def test_concurrent_registrations_never_overfill_a_roster_nor_double_an_agent(application):
    competition_id = make_competition(application, roster_size=5)

    def register(number):
        try:
            application.competitions.register(ALICE, competition_id, entry(f"a{number % 12}"))
        except (AlreadyRegisteredError, RosterFullError) as error:
            return type(error).__name__
        return "ok"

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(register, range(48)))

    roster = [agent["agent_id"] for agent in application.competitions.state(competition_id)["roster"]]
    assert answers.count("ok") == len(roster) == len(set(roster)) == 5


def test_concurrent_comings_and_goings_keep_places_unique_and_within_the_roster(application):
    competition_id = make_competition(application, roster_size=4)

    def come_or_go(number):
        agent_id = f"a{number % 6}"
        try:
            if number % 3:
                application.competitions.register(ALICE, competition_id, entry(agent_id))
            else:
                application.competitions.withdraw(ALICE, competition_id, agent_id)
        except (AlreadyRegisteredError, RosterFullError, UnknownEntryError) as error:
            return type(error).__name__
        return "ok"

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(come_or_go, range(60)))

    agents = [agent["agent_id"] for agent in application.competitions.state(competition_id)["roster"]]
    for number in range(4 - len(agents)):
        application.competitions.register(ALICE, competition_id, entry(f"last {number}"))
    with pytest.raises(RosterFullError):
        application.competitions.register(ALICE, competition_id, entry("one more"))
    assert answers.count("ok") >= len(agents) == len(set(agents)) <= 4


def test_a_competition_whose_start_failed_keeps_its_log(in_memory):
    competition_id = make_competition(in_memory)
    register_misfit(in_memory, competition_id)
    with pytest.raises(RunFailedError):
        in_memory.competitions.start(ALICE, competition_id)

    with pytest.raises(NotDeletableError, match="public record") as refused:
        in_memory.competitions.delete(ALICE, competition_id)

    assert refused.value.reason == "has_events"
    assert in_memory.competitions.state(competition_id)["status"] == "draft"


def test_a_run_that_fails_releases_the_claim_and_says_why(database_url, one_pack):
    application = Application(database_url, catalog=one_pack)
    competition_id = make_competition(application, "baseline")
    application.competitions.open(ALICE, competition_id)
    ticks = one_pack.folder / "starter" / "ticks.parquet"
    sound = ticks.read_bytes()
    # News of the claim come before the replay: here the pack breaks in between.
    leave = application.subscribe(competition_id, lambda: ticks.write_bytes(b"broken"))

    with pytest.raises(RunFailedError, match="starter"):
        application.competitions.start(ALICE, competition_id)

    leave()
    state = application.competitions.state(competition_id)
    assert (state["status"], state["run_id"]) == ("open", None)
    assert "starter" in state["cause"]
    log = application.competitions.events(competition_id, -1)
    assert [event["kind"] for event in log] == ["COMPETITION_STARTED", "COMPETITION_FAILED"]
    assert application.runs.card(log[0]["run_id"])["run"]["status"] == "failed"
    ticks.write_bytes(sound)
    again = application.competitions.start(ALICE, competition_id)
    assert (again["status"], again["run_id"]) == ("finalized", log[0]["run_id"])
    assert application.competitions.state(competition_id)["cause"] is None
    application.close()


def test_what_a_live_listener_saw_is_the_log(application):
    competition_id = make_competition(application, *BOTH)
    seen = []

    def listen():
        while not seen or seen[-1]["kind"] != "COMPETITION_FINALIZED":
            seen.extend(application.competitions.events(competition_id, seen[-1]["seq"] if seen else -1, limit=7))
            time.sleep(0.01)

    listener = Thread(target=listen)
    listener.start()
    application.competitions.start(ALICE, competition_id)
    listener.join(timeout=PATIENCE_S)

    assert seen == application.competitions.events(competition_id, -1)


def test_subscribers_are_told_during_the_run_until_they_leave(in_memory):
    competition_id = make_competition(in_memory, *BOTH)
    told = []
    leave = in_memory.subscribe(competition_id, lambda: told.append(in_memory.competitions.state(competition_id)["status"]))

    in_memory.competitions.start(ALICE, competition_id)
    during = list(told)
    leave()
    in_memory.competitions.complete(ALICE, competition_id)

    assert during[0] == "running"
    assert during[-1] == "finalized"
    assert told == during


def test_a_dry_run_asks_no_venue(in_memory):
    paper, dry = (make_competition(in_memory, *BOTH, execution_mode=mode) for mode in ("paper", "dry_run"))

    for competition_id in (paper, dry):
        in_memory.competitions.start(ALICE, competition_id)

    executed = in_memory.competitions.state(paper)["execution"]
    assert executed["non_scoring"] is True
    assert executed["receipts"]
    assert in_memory.competitions.state(dry)["execution"] is None


def test_a_scoring_window_closes_after_that_long(in_memory):
    competition_id = make_competition(in_memory, *BOTH, scoring_window="PT30M")

    run_id = in_memory.competitions.start(ALICE, competition_id)["run_id"]

    started = in_memory.competitions.events(competition_id, -1)[0]
    assert (started["payload"]["window"]["end_rule"], started["payload"]["window"]["duration_s"]) == ("fixed_duration", 1800)
    assert in_memory.runs.verify(run_id)["verified"]


@pytest.mark.parametrize(
    "bad",
    [
        {"roster_size": 1}, {"roster_size": True}, {"roster_size": 2.0}, {"source_mode": "paper"}, {"competition_type": "a b"},
        {"execution_mode": "live"}, {"scoring_window": "P1Y"}, {"scoring_window": "PT0S"}, {"fixture_id": True},
        {"market_scope": ""},
    ],
)  # fmt: skip
def test_configurations_out_of_bounds_are_refused_by_their_field(bad):
    fields = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2}

    with pytest.raises(ValueError, match=next(iter(bad))):
        CompetitionConfig(**fields | bad)


def test_an_agent_that_fails_is_told_in_the_log_and_the_others_go_on(application):
    competition_id = make_competition(application, "baseline")
    register_misfit(application, competition_id)

    run_id = application.competitions.start(ALICE, competition_id)["run_id"]

    failed = [event for event in application.competitions.events(competition_id, -1) if event["kind"] == "AGENT_ERROR"]
    assert [event["payload"]["agent_id"] for event in failed] == ["model"]
    rows = application.competitions.state(competition_id)["leaderboard"]
    assert [(row["agent_id"], row["valid_count"] > 0) for row in rows] == [("baseline", True), ("model", False)]
    assert rows[1]["mean_clv_bps"] is None
    assert application.runs.verify(run_id)["verified"]


def test_the_owner_alone_reads_why_an_agent_failed(application):
    competition_id = make_competition(application, "baseline")
    register_misfit(application, competition_id)
    read = application.competitions.agent_errors

    before = read(ALICE, competition_id)
    run_id = application.competitions.start(ALICE, competition_id)["run_id"]

    assert before == []
    message = "llm: transcript entry 0: fixture 90000000 has no tick 1000000"
    assert read(ALICE, competition_id) == [{"run_id": run_id, "agent_id": "model", "error": "AgentError", "message": message}]
    assert message.encode() not in application.runs.sealed_run(run_id).events
    for caller, asked, refusal in ((BOB, competition_id, NotOwnerError), (ALICE, "comp_absent", UnknownCompetitionError)):
        with pytest.raises(refusal):
            read(caller, asked)


def test_when_every_agent_fails_the_start_fails_with_their_cause(application):
    competition_id = make_competition(application)
    register_misfit(application, competition_id)

    with pytest.raises(RunFailedError, match="1000000"):
        application.competitions.start(ALICE, competition_id)

    state = application.competitions.state(competition_id)
    assert (state["status"], state["latest_seq"]) == ("draft", 1)
    assert state["cause"] == "AgentError: llm: transcript entry 0: fixture 90000000 has no tick 1000000"
