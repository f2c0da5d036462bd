"""Plain HTML for notebooks: escaped, calm, in the viewer's own colours, without a request to anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape
from re import Match, sub

from clvlab.drawing.style import PAGE_STYLE, STYLE
from clvlab.words import yes

_UNTRUSTED = "Pictures and colours show once the notebook is run, or trusted."


class Html(str):
    """Text that is HTML already: a cell of this type, and of no other, is shown as it is."""

    __slots__ = ()


def block(title: str, *parts: str) -> str:
    """Frame parts, which are HTML already, under a title, which is text and may be empty."""
    head, content = f"<h4>{escape(title)}</h4>" if title else "", "".join(parts)
    untrusted = f'<p class="untrusted"><em>{_UNTRUSTED}</em></p>' if "<svg" in content else ""
    return f'<div class="clvlab"><style>{STYLE}</style>{head}{untrusted}{_drawn(content)}</div>'


def _drawn(content: str) -> str:
    """Hide pictures where there is no style: of a picture, a notebook that is not trusted shows the letters alone."""
    depth = 0

    def framed(tag: Match[str]) -> str:
        nonlocal depth
        depth += -1 if tag[0] == "</svg>" else 1
        if tag[0] == "</svg>":
            return "</svg></span>" if depth == 0 else "</svg>"
        return '<span class="drawn" style="display:none"><svg' if depth == 1 else "<svg"

    return sub(r"<svg\b|</svg>", framed, content)


def page(title: str, content: str) -> str:
    """Make a page of its own: a title, which is text, and content, which is HTML."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head><body>{content}</body></html>\n"
    )


def unbroken(text: str) -> str:
    """Escape a text in which no unit parts from its number at the end of a line."""
    return sub(r"(?<=\d) (?=%|bps)", "&nbsp;", escape(text))


def verdict(sentence: str, tone: str) -> str:
    """Put a sentence, which is text, before everything else, with the sign of its tone: beats, loses, unclear or nothing."""
    return f'<p class="verdict {escape(tone)}">{unbroken(sentence)}</p>'


def section(title: str, *parts: str, whole: bool = False) -> str:
    """Put HTML under a small head, which is text and may be empty; what is too wide scrolls; ``whole`` cells do not break."""
    head = f"<h5>{escape(title)}</h5>" if title else ""
    return f'{head}<div class="wide{" whole" if whole else ""}">{"".join(parts)}</div>'


def details(summary: str, *parts: str) -> str:
    """Fold HTML away under a line, which is text: it opens where it stands, without a script."""
    return f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"


def strip(pairs: Mapping[str, object]) -> str:
    """Set a few figures beside each other, each under its name, as far as there is room."""
    pair = '<div style="clear:both"><dt>{}</dt><dd>{}</dd></div>'  # where our style is taken off, Jupyter floats the names
    items = (pair.format(escape(name), _cell(value)) for name, value in pairs.items())
    return f'<dl class="strip">{"".join(items)}</dl>'


def marks(verdicts: Mapping[str, str]) -> str:
    """Set verdicts on a line, each with its sign; the sign says what the colour does."""
    signs = {"pass": ("pass", "\u2713"), "fail": ("fail", "\u2717"), "not_applicable": ("quiet", "\u2013")}
    said = []
    for name, verdict in verdicts.items():
        kind, sign = signs.get(verdict, ("quiet", "\u25cb"))
        words = f"{name}: {verdict}".replace("_", " ")
        said.append(f'<li title="{escape(words)}"><span class="{kind}">{sign}</span> {escape(name.replace("_", " "))}</li>')
    return f'<ul class="marks">{"".join(said)}</ul>'


def fence(title: str, *parts: str) -> str:
    """Set HTML apart behind a dashed line: what nobody vouches for. The title is text."""
    return f"<fieldset><legend>{escape(title)}</legend>{''.join(parts)}</fieldset>"


def preformatted(text: str) -> str:
    """Text with its own line ends, in a box that scrolls."""
    return f"<pre>{escape(text)}</pre>"


def figures(drawings: Iterable[str]) -> str:
    """Set drawings, which are HTML already, side by side as far as there is room."""
    return f'<div class="figures">{"".join(f"<div>{drawing}</div>" for drawing in drawings)}</div>'


def facts(pairs: Mapping[str, object]) -> str:
    """Two columns: name and value."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in pairs.items())
    return f"<table>{rows}</table>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, pictures: Sequence[int] = ()) -> str:
    """Columns with a head; numbers stand right. Columns of pictures, by their number, take the room that is left."""
    body = list(rows)
    numeric = [any(isinstance(row[i], int | float) for row in body) for i in range(len(columns))]
    kinds = [' class="n"' if is_number else "" for is_number in numeric]
    for number in pictures:
        kinds[number] = ' class="picture"'
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(columns, kinds, strict=True))
    lines = (
        "<tr>" + "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in body
    )
    kind = ' class="forest"' if pictures else ""
    return f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def hinted(said: str, hint: str) -> Html:
    """A text with another that is seen where the pointer rests; none where they are the same."""
    return Html(escape(said) if said == hint else f'<abbr title="{escape(hint)}">{escape(said)}</abbr>')


def noted(said: str, note: str) -> Html:
    """A text with a quiet note under it."""
    return Html(f"{escape(said)}<br><em>{escape(note)}</em>" if note else escape(said))


def rest(height: int, shown: int, where: str) -> str:
    """Say quietly how many rows more there are than are shown, and where; empty where there are none."""
    return f'<p class="quiet">and {height - shown:,} more, in {where}</p>' if height > shown else ""


def badge(verdict: str) -> Html:
    """A verdict in its colour."""
    kind = {"pass": "pass", "fail": "fail"}.get(verdict, "open")
    return Html(f'<span class="{kind}">{escape(verdict.replace("_", " "))}</span>')


def _cell(value: object) -> str:
    match value:
        case None:
            return '<span class="quiet">none</span>'
        case bool():
            return yes(value)
        case float():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case Html():
            return value
        case _:
            return sub("sha256:[0-9a-f]{64}", r"<code>\g<0></code>", escape(str(value)))
