"""The card of a pack: what it is good for, when its fixtures lie, and how well they are covered."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from clvlab.drawing import html
from clvlab.drawing.columns import time_columns
from clvlab.packs.derived.derivation import DerivedPack
from clvlab.packs.derived.wording import derived_words
from clvlab.packs.quality import Quality, QualityAccount, Spread
from clvlab.packs.reader import Pack
from clvlab.words import TO_MINUTE, counted, seconds, share

_MOST_ROWS = 1_000_000  # of ticks that a card reads for itself, in about a fifth of a second
_SHOWN_FIXTURES = 8


def pack_card(pack: Pack, found: Quality | None) -> str:
    """Show a pack, and what is known of its ticks; see ``measured``."""
    kickoffs = [kickoff for kickoff in pack.fixtures["kickoff_ts_ms"].to_list() if kickoff is not None]
    warnings = [] if found is None else _warnings(found)
    return html.block(
        f"Pack {pack.pack_id}",
        html.verdict(_sentence(pack, len(kickoffs)), "nothing"),
        time_columns(kickoffs),
        html.strip(_coverage(pack, found)),
        *(f"<p>{html.escape(warning)}</p>" for warning in warnings),
        html.details("Fixtures", _fixtures(pack)),
        html.details("Details", html.facts(_facts(pack))),
    )


def measured(pack: Pack) -> Quality | None:
    """Return what the ticks of a pack show that no import reported on; null where they are many, elsewhere, or held out."""
    rows = sum(fixture.rows for fixture in pack.manifest.fixtures)
    if pack.verification or pack.held_out or not 0 < rows <= _MOST_ROWS:
        return None
    account = QualityAccount()
    account.add(pack.tape())
    return account.report(files=0, fixtures=pack.fixtures["kickoff_ts_ms"].to_list())


def _sentence(pack: Pack, kickoffs: int) -> str:
    count = len(pack.fixture_ids)
    made = {
        "synthetic": "made by a generator: its figures say nothing about a real market",
        "genuine": f"labelled a provider's capture, {pack.grade}",
        "imported": "imported: whose odds they are is the importer's word",
    }.get(pack.provenance.partition("-")[0], "of unknown origin")
    said = f"{counted(count, 'fixture')}, {made}"
    without = "" if kickoffs == count else f"; {count - kickoffs:,} without a kickoff"
    held = f"; {len(pack.held_out):,} held out by a plan" if pack.held_out else ""
    unsure = f"; {len(pack.doubtful):,} of which nothing tells whether a plan holds them out" if pack.doubtful else ""
    return f"{said}{without}{held}{unsure}."


def _coverage(pack: Pack, found: Quality | None) -> dict[str, str]:
    if found is None:
        return {"rows": pack.rows}
    closed = found.markets - found.markets_without_close - found.markets_suspended_at_close
    part = f" ({closed / found.markets:.0%})" if found.markets else ""
    return {
        "markets with an open close": f"{closed:,} of {found.markets:,}{part}",
        "overround, median": _median(found.book_overround_bps or found.price_overround_bps, 100, "%", 1),
        "longest silence of a market, median": _median(found.largest_gap_s, 3600, "h", 1),
        "age of the close, median": _median(found.closing_age_s, 1, "s", 0),
        "ticks": f"{found.ticks:,}, {share(found.suspended_share)} suspended",
        "gaps of the capture": _gaps(pack),
    }


def _gaps(pack: Pack) -> str:
    capture = pack.manifest.capture
    if capture is None:
        return "not captured"
    lasting = [gap for gap in capture.gaps if not gap.replayed]
    lost_s = sum(gap.to_ts_ms - gap.from_ts_ms for gap in lasting) / 1000
    return f"{len(lasting):,}, {seconds(lost_s)}" if lasting else "none"


def _warnings(found: Quality) -> list[str]:
    low = found.price_overround_bps.median if found.price_overround_bps else 0
    return [
        *([f"{found.refused_rows:,} of {found.messages:,} rows were refused: see .quality"] if found.refused_rows else []),
        *([f"{found.fixtures_without_ticks:,} fixtures have no ticks"] if found.fixtures_without_ticks else []),
        *(["prices sum to less than a whole: nobody could have taken all of them from one book"] if low < 0 else []),
    ]


def _median(spread: Spread | None, size: float, unit: str, digits: int) -> str:
    if spread is None:
        return "none"
    median, low, high = (f"{value / size:,.{digits}f}" for value in (spread.median, spread.p05, spread.p95))
    return f"{median} {unit} (5-95 %: {low} to {high})"


def _fixtures(pack: Pack) -> str:
    shown = pack.fixtures.head(_SHOWN_FIXTURES)
    rows: Sequence[Sequence[object]] = shown.select(
        pl.col("fixture_id").cast(pl.String),
        "names",
        pl.from_epoch("kickoff_ts_ms", time_unit="ms").dt.strftime(TO_MINUTE),
        "rows",
    ).rows()
    table = html.section("", html.table(["fixture", "names", "kickoff (UTC)", "rows"], rows))
    return table + html.rest(len(pack.fixture_ids), shown.height, ".frame")


def _facts(pack: Pack) -> dict[str, object]:
    facts: dict[str, object] = {
        "provenance": pack.provenance,
        "genuine capture": pack.is_genuine,
        "grade": pack.grade.value,
        "content hash": pack.content_hash,
        "closing policy": pack.closing,
    }
    facts |= {"made of": derived_words(pack)} if isinstance(pack, DerivedPack) else {}
    facts |= {"kickoffs": pack.kickoffs} if pack.kickoffs else {}
    facts |= {"verification": pack.verification} if pack.verification else {}
    return facts
