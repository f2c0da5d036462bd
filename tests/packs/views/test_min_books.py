"""Messages of markets that few books price, against a loop over plain rows."""

import pytest

import clvlab as cl
from clvlab.errors import ViewError
from tests import booked
from tests.length import length


def plainly(seed, least, max_overround=None, market=""):
    """Ticks counted anew, and how many open messages have too few books, found one after the other."""
    ticks, books = booked.rows_of(seed)
    speaking, found, few = {}, [], 0
    said = {}
    for fixture, own, _, book, seq, *_, suspended in books:
        said.setdefault((fixture, seq), {})[own, book] = suspended
    numbers = {}
    messages = {}
    for row in ticks:
        messages.setdefault(row[:2], []).append(row)
    for (fixture, seq), sides in sorted(messages.items()):
        for (own, book), suspended in said.get((fixture, seq), {}).items():
            (set.discard if suspended else set.add)(speaking.setdefault((fixture, own), set()), book)
        name, is_suspended = sides[0][4], sides[0][8]
        if not name.startswith(market):
            continue
        number = numbers[fixture] = numbers.get(fixture, -1) + 1
        beyond = max_overround is not None and not is_suspended and sum(1000 / side[7] for side in sides) > 1 + max_overround
        short = not is_suspended and not beyond and len(speaking.get((fixture, name), ())) < least
        few += short
        for *head, prob, odds, suspended in sides:
            head[1] = number
            found.append((*head, *((None, None, True) if short or beyond else (prob, odds, suspended))))
    return sorted(found, key=repr), few


@pytest.fixture(scope="module", params=range(1, length(2, 4)))
def pack(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "booked"
    booked.write_booked(folder, request.param)
    return cl.open_pack(folder), request.param


@pytest.mark.parametrize("least", [1, 2, 3])
@pytest.mark.parametrize(
    "others", [{}, {"markets": "OU"}, {"max_overround": 0.0312}, {"markets": "1X2", "max_overround": 0.0312}]
)
def test_a_loop_marks_the_same_messages_and_counts_as_many(pack, least, others):
    whole, seed = pack
    view = whole.where(min_books=least, **others)

    expected, few = plainly(seed, least, others.get("max_overround"), others.get("markets", ""))
    assert sorted(view.ticks().iter_rows(), key=repr) == expected
    assert few > 0 or least == 1
    assert view.removed.filter(filter="min_books").select("what", "removed").rows() == [("messages, marked suspended", few)]
    assert cl.backtest(view, "baseline").run.verify().passed


def test_each_fixture_alone_reads_as_with_the_others(pack):
    view = pack[0].where(min_books=2, markets="OU")

    assert view.ticks([2]).equals(view.ticks().filter(fixture_id=2))


def test_a_view_of_a_view_and_one_that_is_opened_again_are_the_same(pack, tmp_path):
    view = pack[0].where(markets="OU").where(min_books=2)
    path = view.save(pack[0].source.folder.parent / f"{tmp_path.name}.json")

    again = cl.open_pack(path)

    assert again.content_hash == view.content_hash != pack[0].where(markets="OU").where(min_books=1).content_hash
    assert again.ticks().equals(view.ticks())
    assert view.ticks().equals(pack[0].where(min_books=2, markets="OU").ticks())


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_no_number_of_books_is_refused(pack, wrong):
    with pytest.raises(ViewError, match=r"min_books= is a whole number of books from 1 on, not"):
        pack[0].where(min_books=wrong)


def test_more_books_than_there_are_and_packs_without_the_layer_are_refused(pack):
    with pytest.raises(ViewError, match=r"min_books= is 4, and pack 'booked' keeps 3 books"):
        pack[0].where(min_books=4)
    with pytest.raises(ViewError, match=r"min_books= is 1, and pack .* keeps the consensus alone: import it with books=True"):
        cl.open_pack("season").where(min_books=1)
