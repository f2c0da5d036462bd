import numpy as np
import polars as pl
import pytest

from clvlab.store.sketches import Groups, are_alike, joined, sketches

AGENT = "a"


def scores(ticks, *, market_key="M||", side="home", agent_id=AGENT, fixture_id=1):
    count = len(ticks)
    return pl.DataFrame(
        {
            "agent_id": [agent_id] * count, "fixture_id": [fixture_id] * count, "tick_seq": list(ticks),
            "market_key": [market_key] * count, "side": [side] * count,
        },
        schema_overrides={"agent_id": pl.String, "fixture_id": pl.Int64, "tick_seq": pl.Int32},
    )  # fmt: skip


def sketch(ticks, source="sha256:1", **fields):
    return sketches(scores(ticks, **fields), source, [AGENT])[AGENT]


@pytest.mark.parametrize(("count", "others", "expected"), [
    (100, 5, True), (100, 6, False), (20, 1, True), (20, 2, False), (5, 1, False), (5, 0, True), (1, 1, False),
])  # fmt: skip
def test_two_agents_are_alike_with_95_percent_of_their_decisions(count, others, expected):
    first, second = sketch(range(count)), sketch([*range(count - others), *range(1000, 1000 + others)])

    assert are_alike(first, second) is are_alike(second, first) is expected


@pytest.mark.parametrize(("share", "expected"), [(1.0, True), (0.99, True), (0.85, False), (0.5, False)])
def test_of_many_decisions_a_sketch_tells_the_share_well_enough(share, expected):
    count = 20_000
    same = round(share * count)
    first, second = sketch(range(count)), sketch([*range(same), *range(50_000, 50_000 + count - same)])

    assert len(first) == 256 * 8
    assert are_alike(first, second) is expected
    assert are_alike(first, sketch(range(count // 2))) is False


def test_a_decision_is_its_pack_fixture_message_market_and_side():
    whole = sketch(range(50))

    for other in (
        sketch(range(50), source="sha256:2"), sketch(range(50), fixture_id=2), sketch(range(1, 51)),
        sketch(range(50), market_key="N||"), sketch(range(50), side="away"),
    ):  # fmt: skip
        assert np.intersect1d(np.frombuffer(whole, "<u8"), np.frombuffer(other, "<u8")).size in (0, 49)
    assert sketch([*range(50), *range(50)]) == whole


def test_sketches_do_not_change_from_version_to_version():
    assert sketch([0, 1]).hex() == "e20f3324544b684a5f202bc5940801d8"


def test_abstentions_and_other_agents_are_left_out():
    waits = scores([7, 8]).with_columns(market_key=pl.lit(None, pl.String), side=pl.lit(None, pl.String))
    mixed = pl.concat([scores(range(5)), waits, scores(range(9), agent_id="b")])

    found = sketches(mixed, "sha256:1", [AGENT, "b", "c"])

    assert (found[AGENT], found["b"], found["c"]) == (sketch(range(5)), sketch(range(9)), b"")


def test_sketches_of_parts_join_to_that_of_the_whole():
    parts = [range(300), range(300, 500), range(500, 501)]

    assert joined(map(sketch, parts)) == sketch(range(501))
    assert joined([]) == b""


def row(position, ticks, causality="template", knowledge="history", *, hindsight=False):
    told = {"causality": causality, "knowledge": knowledge, "hindsight_possible": hindsight}
    return {"position": position, "sketch": None if ticks is None else sketch(ticks), **told}


def test_rows_are_grouped_with_the_first_that_is_like_them():
    groups = Groups()
    placed = [groups.place(row(number, ticks)) for number, ticks in enumerate([range(40), range(9), range(39), range(9)])]

    assert [None if found is None else found["position"] for found in placed] == [None, None, 0, 1]


@pytest.mark.parametrize(
    "other",
    [row(1, range(40), "transcript"), row(1, range(40), knowledge="live"), row(1, range(40), hindsight=True), row(1, None)],
    ids=["how", "when", "hindsight", "unknown"],
)
def test_what_decides_otherwise_or_is_unknown_is_in_no_group_of_others(other):
    assert Groups([row(0, range(40))]).place(other) is None


def test_rows_whose_decisions_are_unknown_are_not_alike():
    assert Groups([row(0, None)]).place(row(1, None)) is None
