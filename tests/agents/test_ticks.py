import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clvlab as cl
from clvlab.agents.isolation.agent import isolated
from clvlab.agents.ticks import TickAgent, Walk
from clvlab.engine.lookahead import lookahead_audit, prefix
from clvlab.errors import AgentError, AgentFailedError, LookaheadError
from clvlab.law.tape import Tape
from clvlab.proof import clv_states
from clvlab.proof.evidence import read_evidence
from tests.engine.strategies import games
from tests.factories import AUDITED, MARKET, make_own_run, make_tape, message
from tests.length import length

TAPE = make_tape(
    [
        message(0, 0, {"part1": (4000, 2500), "part2": (6000, None)}),
        message(1, 60, {"over": (5000, 2000), "under": (5000, 2000)}, market_key="OU|"),
        message(2, 90, {"part1": None, "part2": None}),
        message(0, 30, {"part1": (7000, 1400), "part2": (3000, 3300)}, fixture_id=2),
    ],
    {1: 600, 2: 600},
)


class Favourite(TickAgent):
    """Backs the first side above a probability, once a market."""

    def __init__(self, least_bps=5500):
        self.params = {"least_bps": least_bps}
        self.done = set()

    def on_tick(self, book):
        market = (book.fixture_id, book.market_key)
        for side in book.sides():
            if market not in self.done and (book.prob_bps(side) or 0) >= self.params["least_bps"]:
                self.done.add(market)
                return book.back(side, stake=5, reason="likely", confidence=0.7, claimed_edge_bps=3, limit_odds_milli=1400)
        return None


def test_book_carries_the_state_of_all_markets_with_their_ages():
    seen = []

    class Watcher(TickAgent):
        def on_tick(self, book):
            seen.append(
                (
                    book.fixture_id, book.tick_seq, book.ts_ms, book.market_key, book.markets, book.prob_bps("part1", MARKET),
                    book.odds_milli("part2", MARKET), book.suspended(MARKET), book.age_ms(MARKET), book.age_ms("OU|"),
                )
            )  # fmt: skip

    Watcher().decide(TAPE)

    assert seen == [
        (1, 0, 0, MARKET, [MARKET], 4000, None, False, 0, None),
        (2, 0, 30_000, MARKET, [MARKET], 7000, 3300, False, 0, None),
        (1, 1, 60_000, "OU|", [MARKET, "OU|"], 4000, None, False, 60_000, 0),
        (1, 2, 90_000, MARKET, [MARKET, "OU|"], None, None, True, 0, 30_000),
    ]


def test_what_is_not_quoted_yet_is_null():
    class Asker(TickAgent):
        def on_tick(self, book):
            if book.markets == [MARKET]:
                assert (book.prob_bps("part9"), book.odds_milli("over", "OU|")) == (None, None)
                assert (book.age_ms("OU|"), book.sides("OU|"), book.suspended("OU|")) == (None, (), True)
                return book.wait()
            return None

    assert Asker().decide(TAPE).height == 2


def test_agent_runs_where_a_template_runs():
    result = make_own_run(TAPE, Favourite(), audit_seed=1)

    agent = read_evidence(result.sealed.events).started["agents"][0]
    assert result.scores.select("fixture_id", "side", "reason").rows() == [
        (1, "part2", "closing_suspended"),
        (2, "part1", "scored"),
    ]
    assert (agent["causality"], agent["config"]) == (AUDITED, {"least_bps": 5500, "markets": [""]})
    assert agent["source_sha256"].startswith("sha256:")


def test_every_run_starts_from_the_agent_as_it_was():
    agent = Favourite()

    one, other = (make_own_run(TAPE, agent) for _ in range(2))

    assert one.sealed == other.sealed
    assert agent.done == set()


def test_markets_that_are_not_asked_for_are_not_seen():
    class Totals(TickAgent):
        markets = ("OU",)

        def on_tick(self, book):
            assert book.markets == ["OU|"]
            return [book.back(side) for side in book.sides()]

    assert Totals().decide(TAPE)["side"].to_list() == ["over", "under"]


def test_wait_is_recorded():
    class Cautious(TickAgent):
        def on_tick(self, book):
            return book.wait("too early")

    result = make_own_run(TAPE, Cautious())

    assert set(result.scores["reason"]) == {"wait_unscored"}


@pytest.mark.parametrize("answer", ["BACK", 5, {"side": "part1"}, ("part1",), [None], [("part1",)], True])
def test_answer_that_is_no_decision_is_refused_with_an_example(answer):
    class Wrong(TickAgent):
        def on_tick(self, _book):
            return answer

    with pytest.raises(AgentError, match=r"(?s)tick 0 of fixture 1.*book\.back"):
        Wrong().decide(TAPE)


@pytest.mark.parametrize(
    "claims",
    [{"stake": "5"}, {"stake": 1.5}, {"stake": True}, {"limit_odds_milli": 2.5}, {"reason": 5}, {"confidence": "0.5"}],
    ids=str,
)
def test_value_of_a_wrong_type_is_refused_and_named(claims):
    class Wrong(TickAgent):
        def on_tick(self, book):
            return book.back("part1", **claims)

    with pytest.raises(AgentError, match=f"{next(iter(claims))} of a decision at tick 0 of fixture 1 must be"):
        Wrong().decide(TAPE)


def test_number_that_does_not_fit_is_refused():
    class Bold(TickAgent):
        def on_tick(self, book):
            return book.back("part1", claimed_edge_bps=2**70)

    with pytest.raises(AgentError, match="Bold decided with a number that does not fit"):
        Bold().decide(TAPE)


def test_parameters_of_one_class_are_not_those_of_another():
    with pytest.raises(TypeError):
        TickAgent().params["k"] = 1


def test_decision_made_at_an_earlier_message_is_refused():
    class Stash(TickAgent):
        kept = None

        def on_tick(self, book):
            self.kept = self.kept or book.back("part1")
            return self.kept if book.tick_seq else None

    with pytest.raises(AgentError, match="asked at tick 1 of fixture 1, and returned a decision made at tick 0 of fixture 1"):
        Stash().decide(TAPE)


def test_subclass_with_a_decide_of_its_own_is_audited():
    class Peeking(Favourite):
        def decide(self, tape):
            return super().decide(tape).head(9 if tape.messages.height == 4 else 0)

    with pytest.raises(LookaheadError):
        make_own_run(TAPE, Peeking(), audit_seed=1)


@pytest.mark.parametrize("wrong", [{"markets": "1X2"}, {"params": [1]}, {"params": {"markets": 1}}], ids=str)
def test_attribute_of_a_wrong_type_is_refused(wrong):
    agent = Favourite()
    vars(agent).update(wrong)

    with pytest.raises(AgentError, match=next(iter(wrong))):
        _ = agent.identity


def test_agent_without_on_tick_says_how_to_write_one():
    with pytest.raises(AgentFailedError, match="NotImplementedError: TickAgent needs an on_tick"):
        make_own_run(TAPE, TickAgent())


def test_tick_agent_passes_the_audit():
    assert cl.lookahead_audit(Favourite(), "starter").passed
    assert lookahead_audit(isolated(Favourite()), TAPE, seed=1).passed


@given(games(), st.randoms(use_true_random=False))
@settings(max_examples=length(20, 50))
def test_walk_that_goes_on_when_the_tape_grows_decides_as_one_over_the_whole(game, dice):
    tape = Tape.from_ticks(game.ticks, game.fixtures)
    messages = tape.messages.select("ts_ms", "fixture_id", "tick_seq").rows()
    cuts = sorted(dice.sample(messages, min(3, len(messages))))

    class Diary(TickAgent):
        def __init__(self):
            self.before = []

        def on_tick(self, book):
            self.before.append((book.fixture_id, book.tick_seq))
            states = [(market, book.age_ms(market), book.sides(market)) for market in book.markets]
            return book.wait(f"{len(self.before)} {states}"[:500])

    walk = Walk(Diary())
    grown = [walk.decide(prefix(tape, cut)).height for cut in cuts]

    assert walk.decide(tape).equals(Diary().decide(tape))
    assert grown == [messages_until(tape, cut) for cut in cuts]


def messages_until(tape, cut):
    return sum(message <= cut for message in tape.messages.select("ts_ms", "fixture_id", "tick_seq").rows())


@given(games())
@settings(max_examples=length(20, 50))
def test_book_holds_the_states_that_the_scalar_law_finds(game):
    tape = Tape.from_ticks(game.ticks, game.fixtures)
    fixtures = clv_states.fixtures_of([row | {"kickoff_ts_ms": None} for row in game.rows])

    class Checker(TickAgent):
        def on_tick(self, book):
            for market, states in fixtures[book.fixture_id].markets.items():
                state = clv_states.state_at(states, book.tick_seq)
                assert (market in book.markets) == (state is not None)
                assert book.age_ms(market) == (state and book.ts_ms - state["ts_ms"])
                for side in state["sides"] if state else []:
                    assert book.prob_bps(side["side"], market) == side["prob_bps"]
                    assert book.odds_milli(side["side"], market) == side["odds_milli"]
            return book.wait()

    assert Checker().decide(tape).height == tape.messages.height
