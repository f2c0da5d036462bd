"""HTML from templates: text is escaped, hidden letters are visible, and a page makes no request."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from re import DOTALL, Match, findall, sub
from typing import TYPE_CHECKING, Any
from unicodedata import category

from markupsafe import Markup, escape

from clvlab import words

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_KEPT = "\n\t"
_ABSENT = "–"


class Html(Markup):
    """Text that is HTML, the only type that is not escaped."""

    __slots__ = ()


def visible(value: Any) -> Any:
    r"""Return a text in which code points replace the characters that are invisible or reorder the line.

    Examples
    --------
    >>> visible("safe\u202egnp.exe"), visible(None), visible(7)
    ('safe[U+202E]gnp.exe', '–', 7)
    """
    if value is None:
        return _ABSENT
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() or c in _KEPT or category(c) == "Zs" else f"[U+{ord(c):04X}]" for c in value)


def escape_text(text: str) -> Html:
    """Return a text as escaped HTML, for pictures, because they have no template."""
    return Html(escape(visible(text)))


def time_element(ts_ms: int, text: str) -> Html:
    """Return a time in UTC as a ``time`` element, to which a script adds the reader's own; beyond the calendar only its text.

    Examples
    --------
    >>> str(time_element(1_767_387_600_000, "2 Jan, 21:00 UTC")), str(time_element(10**17, "never"))
    ('<time datetime="2026-01-02T21:00:00.000Z">2 Jan, 21:00 UTC</time>', 'never')
    """
    if (when := words.utc(ts_ms)) is None:
        return escape_text(text)
    machine = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Html('<time datetime="{}">{}</time>').format(machine, text)


def unbroken(text: str) -> str:
    """Return a text in which each unit stays on the line of its number."""
    return sub(r"(?<=\d) (?=%|bps)", "\u00a0", text)


def cell(value: object) -> object:
    """Return a value for a table: numbers with separators, hashes as code."""
    match value:
        case None:
            return Html('<span class="quiet">none</span>')
        case bool():
            return words.yes(value)
        case float():
            return f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case Markup():
            return value
    text = str(value)
    return Html(sub("sha256:[0-9a-f]{64}", r"<code>\g<0></code>", str(escape_text(text)))) if "sha256:" in text else text


def numeric(rows: Sequence[Sequence[object]], columns: int) -> list[bool]:
    """Return whether each column of a table has a number and is aligned to the right."""
    return [any(isinstance(row[column], int | float) for row in rows) for column in range(columns)]


def hide_pictures(content: str) -> Html:
    """Hide pictures unless a style shows them; of a picture, an untrusted notebook would show only the letters."""
    depth = 0

    def frame(tag: Match[str]) -> str:
        nonlocal depth
        depth += -1 if tag[0] == "</svg>" else 1
        if tag[0] == "</svg>":
            return "</svg></span>" if depth == 0 else "</svg>"
        return '<span class="drawn" style="display:none"><svg' if depth == 1 else "<svg"

    return Html(sub(r"<svg\b|</svg>", frame, str(content)))


_FILTERS = {
    "amount": words.amount,
    "cell": cell,
    "count": words.count,
    "counted": words.counted,
    "drawn": hide_pictures,
    "estimate": words.estimate,
    "interval": words.interval,
    "numeric": numeric,
    "odds": words.odds,
    "p_value": words.p_value,
    "percent": words.percent,
    "share": words.share,
    "unbroken": unbroken,
}
"""The filters of templates."""


def environment(*folders: Path) -> Environment:
    """Return an environment of the templates here and in other folders, with the macros as ``m``."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # imported here, because a backtest does not need it

    made = Environment(
        loader=FileSystemLoader([*folders, _TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= _FILTERS
    made.globals["m"] = made.get_template("macros.html").module
    return made


_environment = cache(environment)


def render(template: str, /, **values: object) -> Html:
    """Render a template with values; text in them is escaped."""
    return Html(_environment().get_template(template).render(values))


def card(template: str, heading: str = "", /, **values: object) -> Html:
    """Render a template with values as a card, under a heading that may be empty."""
    return render("card.html", heading=heading, content=render(template, **values))


@cache
def times_script() -> str:
    """Return the script that adds the reader's own time to times in UTC."""
    return (_TEMPLATES / "times.js").read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """Return the source of a content security policy that allows one inline script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def page_policy() -> str:
    """Return the content security policy of pages: it allows their style and their one script, and no request."""
    return f"default-src 'none'; script-src {source_hash(times_script())}; style-src 'unsafe-inline'; img-src data:"


def page(title: str, content: Html) -> str:
    """Return a page that needs no other file, and works under ``page_policy``.

    The first heading of its cards becomes that of the page. If it has times, its only script adds the reader's own.
    """
    text = str(content)
    skipped = 0 if len(findall(r"<h4\b", text)) > 1 else 1  # of one card, the sections follow the heading of the page
    for number in (4, 5, 6):
        text = sub(rf"(</?)h{number}\b", rf"\g<1>h{number - 2 - (skipped if number > 4 else 0)}", text)
    text = sub(r"<h2\b(.*?)</h2>", r"<h1\1</h1>", text, count=1, flags=DOTALL)
    script = Html(times_script() if "<time" in text else "")
    return f"{render('page.html', title=title, content=Html(text), script=script)}\n"
