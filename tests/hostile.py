"""Text that would act if a page showed it raw, in the place of every text that a template is given."""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

import polars as pl
from jinja2 import Template
from markupsafe import Markup

from clvlab.report.html import times_script

MARK = "alert(1)"
ENDING = f"\"'></title></style><script>{MARK}</script><img src=x onerror={MARK}>\u202egnp.exe\u200b\x00"


def without_times_script(page: str) -> str:
    """Return a page without its script of times, the only one that a page may have."""
    return page.replace(f"<script>{times_script()}</script>", "", 1)


class _Hostile(str):
    """A text that ends in hostile letters, and compares as it was: templates take the branches that they take without them."""

    plain: str

    def __new__(cls, plain: str) -> "_Hostile":
        made = super().__new__(cls, plain + ENDING)
        made.plain = plain
        return made

    def __eq__(self, other: object) -> bool:
        return self.plain == (other.plain if isinstance(other, _Hostile) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.plain)


def _hostile(value: Any) -> Any:
    match value:
        case Markup() | Enum():
            return value
        case str():
            return _Hostile(value)
        case pl.DataFrame():
            texts = value.with_columns(pl.col(pl.String) + ENDING)
            return texts.rename({name: name + ENDING for name in value.columns})
        case Mapping():
            return {_hostile(name): _hostile(one) for name, one in value.items()}
        case list() | tuple() | range():
            return [_hostile(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(made, field.name, _hostile(getattr(value, field.name)))
        return made
    return value


@contextmanager
def hostile_values(*kept: str) -> Iterator[None]:
    """Have every text hostile that a template is given, but for values that are kept by their names."""
    render = Template.render

    def rendered(template: Template, values: Mapping[str, Any], **more: Any) -> str:
        given = {name: value if name in kept else _hostile(value) for name, value in values.items()}
        return render(template, given, **more)

    with patch.object(Template, "render", rendered):
        yield


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def assert_only_text(shown: str) -> None:
    """Refuse a page on which hostile text is more than text, hides, or is not there."""
    page = _Elements(without_times_script(shown))
    for tag, attributes in page.elements:
        assert tag != "img"
        assert tag != "script" or str(attributes.get("src")).startswith("/assets/")
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
    assert not {"\u202e", "\u200b", "\x00"} & set(shown)
    assert any(MARK in text for text in page.texts)
    assert "[U+202E]" in shown
