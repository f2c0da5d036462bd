"""The glossary links itself: the first use of a term on a page leads to its meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser

__all__ = ["anchored", "linked", "slug", "terms"]

_ROW = re.compile(r"^\| ([^|]+) \| (.+) \|$", re.MULTILINE)
_SILENT = {"a", "code", "pre", "svg", "script", "style", "button", "summary", "th", "h1", "h2", "h3", "h4", "h5", "h6"}
# Words that everybody reads as everyday English: a link would teach nobody.
_PLAIN = {"claim", "check", "drift", "event", "message", "opening", "outcome", "results", "side", "state", "valid", "verified"}


def slug(term: str) -> str:
    """Return the place of a term on the glossary's page.

    >>> slug("basis point (bps)")
    'term-basis-point-bps'
    """
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def anchored(markdown: str) -> str:
    r"""Return the glossary with a place to link to in each row.

    >>> print(anchored("| word | meaning |\n|---|---|\n| tick | one message |"))
    | word | meaning |
    |---|---|
    | <span id="term-tick">tick</span> | one message |
    """
    head, line, rows = markdown.partition("|---|---|\n")
    return head + line + _ROW.sub(lambda row: f'| <span id="{slug(row[1])}">{row[1]}</span> | {row[2]} |', rows)


def terms(markdown: str) -> dict[str, str]:
    r"""Return every word that is linked, with the place of its meaning: in lower case, but for names in capitals.

    A row may name several words, parted by commas; a word in brackets is another name. A word that a row begins with has its
    meaning there. ``audit, of a log`` means this only for a log, so it is not linked, and neither are words of everyday
    English.

    >>> found = terms("|---|---|\n| list, market | a |\n| market, market key | b |\n| audit, of a log | c |\n| side | d |")
    >>> found["market"], found["list"], sorted(found)
    ('term-market-market-key', 'term-list-market', ['list', 'market', 'market key'])
    """
    rows = [row[1] for row in _ROW.finditer(markdown.partition("|---|---|\n")[2]) if not re.search(r", (of|for|in) ", row[1])]
    named = [([word.strip() for word in re.split(r", |\(|\)", row) if word.strip()], slug(row)) for row in rows]
    others = {_form(word): place for words, place in reversed(named) for word in words[1:]}
    found = others | {_form(words[0]): place for words, place in reversed(named)}
    return {word: place for word, place in found.items() if word not in _PLAIN}


def _form(word: str) -> str:
    # BACK is an action, and back a word.
    return word if word.isupper() else word.lower()


def linked(html: str, words: Mapping[str, str], url: str) -> str:
    """Return a page on which the first use of each term leads to the glossary.

    Parameters
    ----------
    html
        Content of a page. Nothing inside code, headings, links, tables' heads or pictures is touched.
    words
        Terms with the place of their meaning, as from ``terms``; a plural in ``s`` is the same term, and what follows "to"
        is a verb.
    url
        The glossary, as seen from the page.

    Examples
    --------
    >>> linked("<p>Two ticks, a <code>tick</code>, a tick.</p>", {"tick": "term-tick"}, "g.html")
    '<p>Two <a class="term" href="g.html#term-tick">ticks</a>, a <code>tick</code>, a tick.</p>'
    """
    reader = _Reader(words, url)
    reader.feed(html)
    reader.close()
    return "".join(reader.parts)


class _Reader(HTMLParser):
    """Copies a page, and links terms in its running text."""

    def __init__(self, words: Mapping[str, str], url: str) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._places, self._url = words, url
        self._done: set[str] = set()
        self._inside: list[str] = []
        longest_first = sorted(words, key=len, reverse=True)
        self._word = re.compile(
            rf"(?<![\w./-])(?<!\bto )({'|'.join(map(re.escape, longest_first))})(s?)(?![\w/-]| to\b)", re.IGNORECASE
        )

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(self.get_starttag_text() or "")
        ours = ("class", "nb-output") in attrs or ("class", "doc-signature highlight") in attrs
        if tag in _SILENT or ours or (self._inside and tag == self._inside[0]):
            self._inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  named by HTMLParser
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append(f"</{tag}>")
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        self.parts.append(data if self._inside else self._word.sub(self._link, data))

    def handle_entityref(self, name: str) -> None:
        self.parts.append(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.parts.append(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self.parts.append(f"<!--{data}-->")

    def _link(self, word: re.Match[str]) -> str:
        place = self._places.get(_form(word[1]))
        if place is None or place in self._done:
            return word[0]
        self._done.add(place)
        return f'<a class="term" href="{self._url}#{place}">{word[0]}</a>'
