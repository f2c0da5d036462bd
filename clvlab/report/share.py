"""One picture of a sealed run to send, as SVG or PNG: drawn from the sealed bytes alone, so it is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from clvlab import words
from clvlab.base.files import written_file
from clvlab.base.names import did_you_mean
from clvlab.errors import ArgumentError, FileError, UnknownAgentError
from clvlab.law.metrics import rank
from clvlab.proof.checks import Verdict as CheckVerdict
from clvlab.proof.seal import SealedRun
from clvlab.proof.verify import verify
from clvlab.report.axes import BLUE, GREY, without_warnings
from clvlab.report.breakdowns import cumulative_clv
from clvlab.report.export import optional, writable
from clvlab.report.headline import LEVEL, Headline, headline
from clvlab.report.html import escape_text, visible
from clvlab.report.svg import day_marks, inner_bounds, round_steps, scale
from clvlab.runs.card import card_causality
from clvlab.runs.run import Run
from clvlab.statistics.by_date import cumulative
from clvlab.statistics.measures import MEASURES, counted, fixture_sums, stacked
from clvlab.statistics.power import POWER, alone, mean_errors, ruler
from clvlab.statistics.verdict import Tone

if TYPE_CHECKING:
    from clvlab.proof.verify import Verification

WIDTH, HEIGHT = 1200, 630
_LEFT, _RIGHT, _MIDDLE = 60, WIDTH - 60, 580
_INK, _QUIET, _RULE = "#17202a", "#55616d", "#d5dbe1"
_COLOURS = {Tone.BEATS: "#14713a", Tone.LOSES: "#b3261e", Tone.UNCLEAR: _INK, Tone.NOTHING: _INK}
_TOP, _FLOOR = 334, 452  # of the two pictures
_FOOT = 496
_MOST_ROWS = 5
_CODE = 135  # side of the code that leads to a page
_LONGEST_ADDRESS = 300
_UNCHECKED = "Not checked: whether the prices are those of a real market, what else was tried, and any anchor."
_FONT = "DejaVu Sans,Verdana,sans-serif"  # matplotlib brings the first of them

# Widths of letters in hundredths of their size: upper bounds, of a wide and bold font, so that no text is measured here.
_WIDTHS = {
    letter: width
    for letters, width in {
        " 'ijl": 35, ",./:;IJ\\|": 40, "-f": 45, "!()[]_`rt": 50, '"*': 55, "?csz": 60, "Lx": 65,
        "$0123456789EFTaekovy": 70, "CPSYZbdghnpqu{}": 75, "ABKRVX": 80, "#+<=>DGHNOQU^~": 85, "&": 90, "w": 95, "@M": 100,
        "%m": 105, "W": 115,
    }.items()
    for letter in letters
}  # fmt: skip
_WIDEST = 120


_Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Words:
    x: float
    y: float
    text: str
    size: int
    anchor: str = "start"
    colour: str = _INK
    bold: bool = False


@dataclass(frozen=True, slots=True)
class _Shape:
    """A line, or a filled area without one."""

    points: Sequence[_Point]
    stroke: str = ""
    fill: str = ""
    width: float = 1
    opacity: float = 1
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float
    colour: str
    hollow: bool = False


_Part = _Words | _Shape | _Dot


@dataclass(frozen=True)
class SharedPicture:
    """The picture of a sealed run, 1200 x 630.

    Parameters
    ----------
    sealed
        The bytes, which are verified first; a picture of bytes that fail says so in place of a verdict.
    page
        Address of a page of the run, for a code that leads there; without it the picture has the evidence hash.
    agent_id
        Agent to show of a run of several; by default all of them are shown, without a curve.

    Raises
    ------
    ArgumentError
        The address is neither http nor https, or too long.
    EvidenceError
        The bytes can't be read.
    UnknownAgentError
        The run does not have the agent.

    Examples
    --------
    >>> import clvlab as cl
    >>> picture = SharedPicture(cl.backtest("starter", "cumulative-drift").run.source)
    >>> picture.svg()[:52], "Not checked" in picture.svg()
    ('<svg xmlns="http://www.w3.org/2000/svg" width="1200"', True)
    """

    sealed: SealedRun = field(repr=False)
    page: str | None = None
    agent_id: str | None = None

    def __post_init__(self) -> None:
        if self.page is not None:
            _checked_address(self.page)
        if self.agent_id is not None and self.agent_id not in self._names:
            names, meant = ", ".join(self._names), did_you_mean(self.agent_id, self._names)
            raise UnknownAgentError(f"run {self.sealed.run_id} has no agent {self.agent_id!r}: name one of {names}{meant}")

    @cached_property
    def _verification(self) -> Verification:
        return verify(self.sealed)

    @cached_property
    def _run(self) -> Run:
        return Run(self.sealed).knowing(verification=self._verification).verified()

    @cached_property
    def _names(self) -> list[str]:
        return [agent["agent_id"] for agent in self._run.started["agents"]]

    @property
    def _failing(self) -> list[str]:
        return [name for name, check in self._verification.checks.items() if check.verdict is CheckVerdict.FAIL]

    @cached_property
    def _parts(self) -> list[_Part]:
        named = [self.agent_id] if self.agent_id is not None else self._names
        rows = self._run.marked
        found = {name: rows.filter(pl.col("agent_id") == name) for name in named}
        drawn = _one(found[named[0]], self._run) if len(named) == 1 else _several(found, self._run)
        title = named[0] if len(named) == 1 else words.counted(len(named), "agent")
        return [*self._head(title, drawn), *drawn.parts, *self._foot(named)]

    def _head(self, title: str, drawn: _Content) -> Iterator[_Part]:
        failing = self._failing
        colour = _COLOURS[Tone.LOSES if failing else drawn.tone]
        yield _rectangle(0, 0, WIDTH, HEIGHT, "#ffffff")
        yield _rectangle(0, 0, WIDTH, 10, colour)
        started = self._run.started
        kind = words.RUN_KINDS.get(started["kind"], "Run")
        yield _Words(_LEFT, 56, "clvlab", 24, bold=True)
        yield _Words(_RIGHT, 56, _cut(f"{kind} on {self._run.pack_id}", 20, 900), 20, "end", _QUIET)
        yield _Words(_LEFT, 102, _cut(title, 28, _RIGHT - _LEFT), 28, bold=True)
        claim, rest = drawn.claim, drawn.rest
        if failing:
            claim = f"Do not rely on this run: it fails {words.counted(len(failing), 'check')}"
            rest = f"What is stored is not what was sealed: {', '.join(failing)}."
        y = 154
        for line in _lines(claim, 42, _RIGHT - _LEFT, 2):
            yield _Words(_LEFT, y, line, 42, colour=colour, bold=True)
            y += 50
        y -= 12
        for line in _lines(rest, 21, _RIGHT - _LEFT, 3):
            yield _Words(_LEFT, y, line, 21)
            y += 29

    def _foot(self, named: Sequence[str]) -> Iterator[_Part]:
        yield _line((_LEFT, _FOOT - 16), (_RIGHT, _FOOT - 16), _RULE)
        agents = [agent for agent in self._run.started["agents"] if agent["agent_id"] in named]
        ways = dict.fromkeys(words.causality(card_causality(one), one["config"].get("blind")) for one in agents)
        held = "The seal does not hold." if self._failing else "Seal and scores were recomputed from the sealed bytes."
        lines = [
            *_lines(f"Look-ahead: {' / '.join(ways)}.", 16, self._reach, 2),
            *_lines(f"{held} {_UNCHECKED}", 16, self._reach, 2),
        ]
        y = _FOOT + 6
        for line in lines:
            yield _Words(_LEFT, y, line, 16, colour=_QUIET)
            y += 22
        name = self.sealed.run_id
        local = (f"evidence {self.sealed.evidence_hash}", f"{name}: ask for the bundle, and run clvlab verify BUNDLE")
        for line in (name, self.page) if self.page else local:
            yield _Words(_LEFT, y, _cut(line, 15, self._reach), 15)
            y += 22
        if self.page:
            yield from _code(self.page)

    @property
    def _reach(self) -> float:
        """Width of the lines at the foot, which leave room for the code."""
        return _RIGHT - _LEFT - (_CODE + 20 if self.page else 0)

    @property
    def alternative(self) -> str:
        """The picture in words."""
        return " ".join(part.text for part in self._parts if isinstance(part, _Words) and part.size > 20)

    def svg(self) -> str:
        """Return the picture as one SVG document, with the same bytes on every machine."""
        drawn = "".join(_element(part) for part in self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img" aria-label="{escape_text(self.alternative)}" font-family="{_FONT}">{drawn}</svg>\n'
        )

    def png(self) -> bytes:
        """Return the picture as PNG.

        Raises
        ------
        MissingLibraryError
            matplotlib is not installed.
        """
        figures = optional("matplotlib.figure", "a picture as PNG (one as .svg does not)")
        figure = figures.Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        axes.set_axis_off()
        for order, part in enumerate(self._parts):
            _draw(axes, part, order)
        content = BytesIO()
        with without_warnings():
            figure.savefig(content, format="png", metadata={"Software": None})
        return content.getvalue()

    def write(self, path: str | Path) -> Path:
        """Write the picture to a file whose name ends in ``.svg`` or ``.png``, and return its path.

        Raises
        ------
        FileError
            The name has another ending, or its folder does not exist.
        MissingLibraryError
            A PNG needs matplotlib, which is not installed.
        """
        target = writable(path)
        if target.suffix not in (".svg", ".png"):
            raise FileError(f"a picture is a file that ends in .svg or .png, not {target.name!r:.80}")
        content = self.svg().encode() if target.suffix == ".svg" else self.png()
        with written_file(target, replace=True) as file:
            file.write(content)
        return target


def _checked_address(address: str) -> None:
    is_plain = isinstance(address, str) and address.isascii() and address.isprintable() and " " not in address
    if not is_plain or not address.startswith(("http://", "https://")) or len(address) > _LONGEST_ADDRESS:
        raise ArgumentError(
            f"the address of a page begins with http:// or https:// and has at most {_LONGEST_ADDRESS} plain characters, "
            f"not {address!r:.80}"
        )


# What the pictures say: one agent with its interval, ruler and curve, or several with their intervals.


@dataclass(frozen=True, slots=True)
class _Content:
    claim: str
    rest: str
    tone: Tone
    parts: Sequence[_Part]


def _one(rows: pl.DataFrame, run: Run) -> _Content:
    found = headline(rows)
    verdict = found.verdict
    if found.clv.mean is None:
        reasons = rows["reason"].value_counts(sort=True).sort("count", "reason", descending=[True, False]).rows()
        why = "; ".join(f"{number:,} {words.REASONS.get(reason, reason)}" for reason, number in reasons[:3])
        rest = f"{words.counted(rows.height, 'decision')}: {why}." if why else "The agent made no decision."
        return _Content(verdict.sentence.removesuffix("."), rest, verdict.tone, ())
    claim, _, rest = verdict.sentence.partition(": ")
    curve = _curve(rows.filter(counted()), run.evidence.closes)
    return _Content(claim, rest, verdict.tone, [*_interval(found), *_ruler(rows), *curve])


def _interval(found: Headline) -> Iterator[_Part]:
    clv, y = found.clv, _TOP + 30
    if clv.mean is None:
        return
    at = _places(scale([clv.mean, clv.low, clv.high]), _LEFT + 70, _MIDDLE - 90)
    title = "Mean CLV, bps" if clv.low is None else "Mean CLV, bps, with its 95 % interval"
    yield _Words(_LEFT, _TOP - 8, title, 16, colour=_QUIET)
    yield _line((_LEFT, y), (_MIDDLE - 40, y), _RULE)
    yield _line((at(0), y - 16), (at(0), y + 14), GREY, dashed=True)
    if clv.low is not None and clv.high is not None:
        yield _line((at(clv.low), y), (at(clv.high), y), BLUE, width=9)
        low, high = (words.signed_like(one, clv.mean, clv.low, clv.high) for one in (clv.low, clv.high))
        yield _Words(at(clv.low) - 8, y + 6, low, 17, "end")
        yield _Words(at(clv.high) + 8, y + 6, high, 17)
    yield _Dot(at(clv.mean), y, _INK, hollow=clv.low is None)
    if abs(at(0) - at(clv.mean)) > 24:
        yield _Words(at(0), y + 30, "0", 14, "middle", _QUIET)


def _ruler(rows: pl.DataFrame) -> Iterator[_Part]:
    """Show round edges, and the fixtures that each one takes; nothing without an interval."""
    clusters, _ = stacked([fixture_sums(rows)], MEASURES["clv"])
    known = mean_errors(clusters, 0.0)
    if not known.errors[0] > 0 or known.n_clusters[0] < 5:
        yield _Words(_LEFT, _TOP + 88, "An interval needs five fixtures or more.", 15, colour=_QUIET)
        return
    marks, y = ruler(alone(clusters, LEVEL)), _TOP + 106
    yield _Words(_LEFT, y - 22, f"More fixtures needed to show an edge of (power {POWER:.0%})", 15, colour=_QUIET)
    width = (_MIDDLE - 40 - _LEFT) / len(marks)
    for number, one in enumerate(marks):
        x = _LEFT + width * (number + 0.5)
        yield _Words(x, y, f"{one.edge:g} bps", 16, "middle", bold=not one.more)
        yield _Words(x, y + 22, f"{one.more:,}" if one.more else "none", 15, "middle", _QUIET)


def _curve(scored: pl.DataFrame, closes: pl.DataFrame) -> Iterator[_Part]:
    """Draw the sum of CLV by the close of its fixture, or by decision of a single one, which has no band."""
    several = scored["fixture_id"].n_unique() > 1
    found = cumulative_clv(scored, closes) if several else cumulative(scored["clv_bps"], scored["seq"], scored["seq"])
    times, totals, lows, highs = (found[name].to_list() for name in ("time_ms", "total", "low", "high"))
    left, right = _MIDDLE + 40, _RIGHT
    title = "Sum of CLV, bps, by date of the close, with a 95 % band" if several else "Sum of CLV, bps, by decision"
    if len(times) < 2 or times[-1] == times[0]:
        return
    banded = [row for row in zip(times, lows, highs, strict=True) if None not in row] if several else []
    bounds = [0.0, *totals, *inner_bounds([bound for _, *both in banded for bound in both], totals)]
    least, most = min(bounds), max(bounds)
    x, y = _places((times[0], times[-1]), left + 84, right), _places((least, most), _FLOOR - 8, _TOP + 16)
    yield _Words(left, _TOP - 8, title, 16, colour=_QUIET)
    for mark in round_steps(least, most, 3):
        yield _line((left, y(mark)), (right, y(mark)), GREY if mark == 0 else _RULE)
        yield _Words(left, y(mark) - 3, words.signed(mark, 0), 13, colour=_QUIET)
    if len(banded) > 1:
        edge = [(x(t), y(min(max(low, least), most))) for t, low, _ in banded]
        edge += [(x(t), y(min(max(high, least), most))) for t, _, high in reversed(banded)]
        yield _Shape(edge, fill=BLUE, opacity=0.2)
    yield _Shape([(x(t), y(total)) for t, total in zip(times, totals, strict=True)], stroke=BLUE, width=3)
    for t, label in day_marks(times[0], times[-1], 4) if several else ():
        at = min(max(x(t), left + 124), right - 44)
        yield _Words(at, _FLOOR + 8, label, 13, "middle", _QUIET)


def _several(each: dict[str, pl.DataFrame], run: Run) -> _Content:
    order = [name for name in rank(run.outcomes)["agent_id"] if name in each]
    found = {name: headline(each[name]) for name in order}
    ahead = sum(one.verdict.tone is Tone.BEATS for one in found.values())
    claim = f"{ahead or 'None'} of {len(each):,} agents {'beats' if ahead < 2 else 'beat'} the closing line"
    rest = "Each interval is of one agent alone: of many agents, some are ahead by luck, and the first is flattered by it."
    first = order[:_MOST_ROWS]
    means = [one.clv for one in (found[name] for name in first)]
    within = scale([bound for one in means for bound in (one.mean, one.low, one.high)])
    at = _places(within, 560, 900)
    parts: list[_Part] = [_Words(_LEFT, 276, "Mean CLV, bps, with its 95 % interval", 16, colour=_QUIET)]
    y = 308
    for name, one in zip(first, means, strict=True):
        parts.append(_Words(_LEFT, y + 6, _cut(name, 18, 440), 18))
        if one.mean is None:
            parts.append(_Words(_RIGHT, y + 6, "no scored decision", 17, "end", _QUIET))
        else:
            if one.low is not None and one.high is not None:
                parts.append(_line((at(one.low), y), (at(one.high), y), BLUE, width=7))
            parts.append(_Dot(at(one.mean), y, _INK, hollow=one.low is None))
            parts.append(_Words(_RIGHT, y + 6, words.estimate(one.mean, one.low, one.high), 17, "end"))
        y += 31
    parts.append(_line((at(0), 290), (at(0), y - 16), GREY, dashed=True))
    if len(order) > len(first):
        parts.append(_Words(_LEFT, y + 6, f"and {len(order) - len(first):,} more", 16, colour=_QUIET))
    return _Content(claim, rest, Tone.BEATS if ahead else Tone.UNCLEAR, parts)


# Shapes and lines of text.


def _places(within: tuple[float, float], first: float, last: float) -> Any:
    least, most = within
    reach = (most - least) or 1.0
    return lambda value: first + (last - first) * (value - least) / reach


def _line(start: _Point, end: _Point, colour: str, *, width: float = 1, dashed: bool = False) -> _Shape:
    return _Shape((start, end), stroke=colour, width=width, dashed=dashed)


def _rectangle(x: float, y: float, width: float, height: float, colour: str) -> _Shape:
    return _Shape(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), fill=colour)


def _code(address: str) -> Iterator[_Part]:
    """Draw a QR code (ISO/IEC 18004) in the lower right corner, with the quiet zone of four modules that it needs."""
    import segno

    modules = [list(row) for row in segno.make(address, error="m", micro=False).matrix_iter(border=4)]
    size = max(_CODE // len(modules), 1)
    left, top = _RIGHT - size * len(modules) + 4 * size, HEIGHT - 8 - size * len(modules)
    for row, cells in enumerate(modules):
        start = 0
        while start < len(cells):
            end = start + 1
            while cells[start] and end < len(cells) and cells[end]:
                end += 1
            if cells[start]:
                yield _rectangle(left + size * start, top + size * row, size * (end - start), size, "#000000")
            start = end


def _width(text: str, size: float) -> float:
    return sum(_WIDTHS.get(letter, _WIDEST) for letter in text) * size / 100


def _plain(text: str) -> str:
    return " ".join(str(visible(text)).split())


def _cut(text: str, size: int, reach: float) -> str:
    """Return a text that fits; the middle of a long one is left out."""
    text = _plain(text)
    kept = len(text)
    while kept and _width(short := _shortened(text, kept), size) > reach:
        kept -= 1
    return short


def _shortened(text: str, kept: int) -> str:
    return text if kept >= len(text) else f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"


def _lines(text: str, size: int, reach: float, most: int) -> list[str]:
    """Return the lines of a text, broken at blanks; the last one is cut."""
    lines: list[str] = []
    line = ""
    pieces = _plain(text).split(" ")
    for place, piece in enumerate(pieces):
        longer = f"{line} {piece}" if line else piece
        if line and _width(longer, size) > reach:
            if len(lines) == most - 1:
                return [*lines, _cut_end(" ".join([line, *pieces[place:]]), size, reach)]
            lines.append(line)
            longer = piece
        line = longer
    return [*lines, _cut(line, size, reach)] if line else lines


def _cut_end(text: str, size: int, reach: float) -> str:
    while text and _width(f"{text}…", size) > reach:
        text = text[:-1]
    return f"{text.rstrip()}…"


# The two forms.


def _element(part: _Part) -> str:
    match part:
        case _Words(x, y, text, size, anchor, colour, bold):
            weight = ' font-weight="700"' if bold else ""
            ends = "" if anchor == "start" else f' text-anchor="{anchor}"'
            return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{ends}{weight}>{escape_text(text)}</text>'
        case _Dot(x, y, colour, hollow):
            fill = f'fill="#ffffff" stroke="{colour}" stroke-width="3"' if hollow else f'fill="{colour}"'
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" {fill}/>'
        case _Shape(points, stroke, fill, width, opacity, dashed):
            steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            look = f'fill="none" stroke="{stroke}" stroke-width="{width:g}"' if stroke else f'fill="{fill}"'
            look += ' stroke-dasharray="5 4"' if dashed else ""
            look += f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
            return f'<path d="M{steps}{"" if stroke else "Z"}" {look}/>'


_ALIGNED = {"start": "left", "middle": "center", "end": "right"}
_POINTS = 0.72  # of a pixel at 100 pixels per inch


def _draw(axes: Any, part: _Part, order: int) -> None:
    match part:
        case _Words(x, y, text, size, anchor, colour, bold):
            axes.text(
                x, y, text, fontsize=size * _POINTS, ha=_ALIGNED[anchor], va="baseline", color=colour, zorder=order,
                weight="bold" if bold else "normal", family="DejaVu Sans", parse_math=False,
            )  # fmt: skip
        case _Dot(x, y, colour, hollow):
            face = "#ffffff" if hollow else colour
            axes.plot([x], [y], "o", ms=16 * _POINTS, mfc=face, mec=colour, mew=3 * _POINTS if hollow else 0, zorder=order)
        case _Shape(points, stroke, fill, width, opacity, dashed):
            xs, ys = zip(*points, strict=True)
            if stroke:
                dashes = (0, (5 / width, 4 / width)) if dashed else "-"
                axes.plot(xs, ys, color=stroke, lw=width * _POINTS, ls=dashes, solid_capstyle="butt", zorder=order)
            else:
                axes.fill(xs, ys, color=fill, alpha=opacity, lw=0, zorder=order, antialiased=opacity < 1)
