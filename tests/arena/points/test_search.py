from dataclasses import replace

import pytest

import clvlab as cl
from clvlab.arena import packs
from clvlab.errors import AgentError, HeldOutError
from clvlab.law.closing import Window
from clvlab.runs.search import search as searches
from clvlab.runs.search.search import search_of

POINT = {"warmup_ticks": 20}
PACK = packs.open_pack("starter")


def template_search(**changes):
    return replace(search_of(PACK, "cumulative-drift", None, Window(), {}), **changes)


def own_search(helper, *, network=False):
    @cl.strategy
    def early(ticks, *, share=0.5):
        return ticks.head(helper(share))

    return search_of(PACK, cl.isolated(early, network=network), None, Window(), {})


def test_the_same_work_has_the_same_name():
    everything = {"warmup_ticks": 20, "cooldown_s": 43_200}  # the last is the default

    assert template_search().key(POINT) == template_search(place=PACK.folder / "moved").key(everything)


@pytest.mark.parametrize(
    "other",
    [
        {"content_hash": "sha256:" + "0" * 64},
        {"fixture_ids": PACK.fixture_ids[1:]},
        {"agent": "sharp-momentum-v2"},
        {"window": Window(min_clv_horizon_s=61)},
        {"window": Window(market_allowlist=("1X2",))},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_work_has_another_name(other):
    assert template_search(**other).key(POINT) != template_search().key(POINT)


def test_other_parameters_give_another_name():
    search = own_search(lambda share: int(share * 10))
    values = [1, 1.0, True, "1", [1], None]

    assert len({search.key({"share": value}) for value in values}) == len(values)
    assert template_search().key({"warmup_ticks": 21}) != template_search().key(POINT)


def test_other_versions_give_another_name(monkeypatch):
    before = template_search().key(POINT)
    monkeypatch.setattr(searches, "_versions", lambda: {"law": "another"})

    assert template_search().key(POINT) != before


def test_a_helper_that_an_agent_reaches_shapes_its_name():
    def one(_):
        return 1

    def two(_):
        return 2

    assert own_search(one).key({}) == own_search(one).key({})
    assert own_search(one).key({}) != own_search(two).key({})


def test_what_is_installed_shapes_the_name_of_an_agent_of_ones_own(monkeypatch):
    search, template = own_search(lambda _: 1), template_search()
    before = search.key({}), template.key({})
    monkeypatch.setattr(searches, "_installed", lambda: "something new")

    assert search.key({}) != before[0]
    assert template.key({}) == before[1]


def test_a_file_that_an_agent_reads_shapes_its_name(tmp_path):
    model = tmp_path / "model.bin"
    model.write_bytes(b"1")
    search = own_search(lambda _: 1)
    search = replace(search, agent=cl.isolated(search.agent, reads=[model]))
    before = search.key({})
    model.write_bytes(b"2")

    assert search.key({}) != before


def test_what_cannot_be_hashed_has_no_name():
    assert own_search(lambda _: 1, network=True).key({}) is None
    assert own_search(lambda _: 1).key({"share": object()}) is None


def test_an_object_that_takes_no_parameters_is_refused():
    with pytest.raises(AgentError, match="Template takes no parameters here"):
        search_of(PACK, searches.resolve("baseline"), None, Window(), {})


def test_fixtures_that_a_plan_holds_out_are_refused():
    shut = replace(PACK, held_out=((PACK.fixture_ids[3], "plan_1"),))

    with pytest.raises(HeldOutError, match=str(PACK.fixture_ids[3])):
        search_of(shut, "baseline", None, Window(), {})
    assert search_of(shut, "baseline", PACK.fixture_ids[:3], Window(), {}).fixture_ids == PACK.fixture_ids[:3]
