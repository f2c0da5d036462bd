"""Plain HTML for notebooks: escaped, calm, in the viewer's own colours, without a request to anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape
from re import Match, sub

from clvlab.words import yes

# The style of cards and pages: the viewer's own ink, on light and on dark.


STYLE = """
.clvlab{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:60rem;color:inherit}
.clvlab h4{margin:.2rem 0 .5rem;font-size:14px;font-weight:600}
.clvlab table{border-collapse:collapse;margin:.3rem 0 .7rem;color:inherit}
.clvlab th,.clvlab td{text-align:left!important;padding:.2rem .8rem .2rem 0;border-bottom:1px solid rgba(128,128,128,.3);
 vertical-align:top;background:none!important;color:inherit!important;overflow-wrap:anywhere}
.clvlab th{font-weight:600;white-space:nowrap}.clvlab td:first-child{white-space:nowrap}
.clvlab td.n,.clvlab th.n{text-align:right!important;font-variant-numeric:tabular-nums;white-space:nowrap}
.clvlab td em{opacity:.7;font-size:12px}
.clvlab abbr{text-decoration:none;border-bottom:1px dotted rgba(128,128,128,.7);cursor:help}
.clvlab code{font-size:12px;background:none!important;color:inherit!important;padding:0!important}
.clvlab .pass{color:#1a7f37}.clvlab .fail{color:#cf222e;font-weight:600}.clvlab .quiet{opacity:.65}
.clvlab td span{white-space:nowrap}
.clvlab span.pass,.clvlab span.fail,.clvlab span.open{border:1px solid currentColor;border-radius:.8em;padding:0 .55em}
.clvlab span.open{opacity:.75}
.clvlab p{margin:.3rem 0}
.clvlab h5{margin:.9rem 0 .2rem;font-size:13px;font-weight:600}.clvlab .wide{overflow-x:auto}
.clvlab .wide.whole td{white-space:nowrap}
.clvlab .figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:.8rem;margin:.6rem 0}
.clvlab .figures>div{max-width:32rem}
.clvlab .verdict{font-size:15px;font-weight:600;margin:.2rem 0 .5rem;max-width:46rem}
.clvlab .verdict.beats::before{content:"\u25b2\u00a0";color:#1a7f37}
.clvlab .verdict.loses::before{content:"\u25bc\u00a0";color:#cf222e}
.clvlab .verdict:is(.unclear,.nothing)::before{content:"\u25c6\u00a0";color:#8a8a8a}
.clvlab .drawn{display:contents!important}.clvlab .untrusted{display:none}
.clvlab svg[height]{display:block;overflow:visible}.clvlab svg:not([height]){width:100%;height:auto}
.clvlab svg{stroke-linejoin:round;stroke-linecap:butt}
.clvlab details{margin:.5rem 0;border-top:1px solid rgba(128,128,128,.3);padding-top:.3rem}
.clvlab summary{cursor:pointer;font-weight:600;padding:.15rem 0}
.clvlab .strip{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.5rem 0}
.clvlab .strip dt{float:none!important;width:auto!important;font-size:12px;opacity:.7;font-weight:400}
.clvlab .strip dd{margin:0!important;padding:0!important;width:auto!important;font-weight:600;font-variant-numeric:tabular-nums}
.clvlab .strip>div{min-width:5rem}
.clvlab .marks{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;list-style:none;margin:.5rem 0;padding:0}
.clvlab .marks li{white-space:nowrap;margin:0}.clvlab .marks span{border:0!important;padding:0!important}
.clvlab table.forest{width:100%;table-layout:auto}.clvlab table.forest td.picture{width:30%;min-width:5rem;padding-top:.1rem}
.clvlab pre{max-height:22rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px;color:inherit;
 background:none;border:1px solid rgba(128,128,128,.3);padding:.5rem;margin:.3rem 0}
.clvlab fieldset{border:1px dashed rgba(128,128,128,.6);margin:.6rem 0;padding:0 .7rem;min-width:0}
.clvlab legend{font-size:12px;opacity:.8;padding:0 .3rem;width:auto;color:inherit;border:0;margin:0}
@media(prefers-color-scheme:dark){.clvlab .verdict.beats::before,.clvlab .pass{color:#3fb950}
 .clvlab .verdict.loses::before,.clvlab .fail{color:#ff7b72}}
[data-jp-theme-light=false] .clvlab .pass,[data-jp-theme-light=false] .clvlab .verdict.beats::before{color:#3fb950}
[data-jp-theme-light=false] .clvlab .fail,[data-jp-theme-light=false] .clvlab .verdict.loses::before{color:#ff7b72}
[data-jp-theme-light=true] .clvlab .pass{color:#1a7f37}[data-jp-theme-light=true] .clvlab .fail{color:#cf222e}
""".strip()

# A page has its own width: it stands in the middle, and on a narrow one first columns break so that values stay in sight.
PAGE_STYLE = """
body{margin:1.5rem auto;max-width:60rem;padding:0 clamp(.75rem,3vw,1.5rem);overflow-wrap:anywhere}
@media(max-width:40rem){body .clvlab .wide table{font-size:12px}body .clvlab .wide :is(th,td){padding-right:.5rem}
 body .clvlab .wide td{overflow-wrap:break-word}body .clvlab .wide code{overflow-wrap:anywhere}
 body .clvlab .wide td:first-child:not(.n){white-space:normal;overflow-wrap:anywhere;min-width:6.5rem}}
""".strip()


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
