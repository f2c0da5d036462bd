"""The law as SQL against the law as Polars expressions."""

from contextlib import suppress

import pytest
from hypothesis import given, settings

from clvlab.engine.run import run
from clvlab.errors import EvidenceError
from clvlab.sql import second_opinion, sql_scores
from tests.engine.strategies import policies
from tests.engine.test_replay_properties import settings_of_a_run, tape_of
from tests.factories import make_agent, make_run, make_sealed_run, make_tape, message
from tests.length import length

pytestmark = pytest.mark.long

RUN = make_sealed_run()


@given(settings_of_a_run(), policies())
@settings(max_examples=length(15, 40))
def test_sql_gives_the_scores_of_the_law(setting, policy):
    game, window, decided = setting

    result = run(tape_of(game), [make_agent(decided)], window, policy=policy)

    assert sql_scores(result.sealed.events).equals(result.scores)
    assert second_opinion(result.sealed.events, result.sealed.scores).agrees


@pytest.mark.parametrize("name", ['a"b', "é\u2028", "\x01", "line\nfeed", "'; DROP TABLE lines; --", "*[x]"])
def test_names_of_any_characters_are_read_as_they_are(name):
    tape = make_tape([message(0, 0, {name: (5000, 2100), "z": (5000, 1900)}, market_key=f"M|{name}")], {1: 600})

    result = make_run(tape, {"market_key": f"M|{name}", "side": name})

    assert second_opinion(result.sealed.events, result.sealed.scores).agrees


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        RUN.scores[: RUN.scores.index(b"\n") + 1],
        RUN.scores + RUN.scores,
        RUN.scores.replace(b'"clv_bps":500', b'"clv_bps":501'),
        RUN.scores.replace(b'"valid":false', b'"valid":true', 1),
    ],
    ids=["none", "one", "twice", "altered", "made valid"],
)
def test_stored_scores_that_do_not_follow_are_disagreed_with(stored):
    assert stored != RUN.scores
    opinion = second_opinion(RUN.events, stored)

    assert not opinion.agrees
    assert "first difference is row" in opinion.detail


@pytest.mark.parametrize(
    "events",
    [
        b"",
        b"no json\n",
        RUN.events[:-1],
        RUN.events.replace(b'"prob_bps":4000', b'"prob_bps":"many"', 1),
        RUN.events.replace(b"rises", b"\xff\xfe", 1),
    ],
    ids=["empty", "text", "cut", "another type", "not UTF-8"],
)
def test_evidence_that_sql_can_not_read_is_refused(events):
    with pytest.raises(EvidenceError):
        second_opinion(events, RUN.scores)


@pytest.mark.parametrize("place", ["window", "market_state", "closing", "payload", "action"])
@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("shift", range(length(1, 4)))
def test_long_text_of_any_characters_where_an_object_stands_is_refused(place, character, shift):
    """DuckDB quotes a part of the line, and may cut it amid a character."""
    key = f'"{place}":{{'.encode()
    for repeated in (20, 45, 100, 1000):
        text = f'"{place}":"{"a" * shift}{character * repeated}","was":{{'.encode()
        renamed = f'"{"a" * shift}{character * repeated}":{{'.encode()
        for other in (text, renamed):
            changed = RUN.events.replace(key, other, 1)
            assert changed != RUN.events
            with suppress(EvidenceError):
                sql_scores(changed)
