"""Long answers as a few lines that a reader can compare: what is short in full, of all else its shape, length and hash."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_SHORT = 240
_LONG_LINE = 400
_LINES = 40
_HEAD = 3


@dataclass(frozen=True)
class Placeholders:
    """What is not the same twice, and the names that stand for it.

    Attributes
    ----------
    texts
        Of texts, as the path of a folder, wherever they stand; the longest first.
    members
        Of the values of members of JSON, by the name of the member; of an object, each of its values.
    patterns
        Of what a pattern matches.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str] = field(default_factory=dict)
    patterns: Mapping[str, str] = field(default_factory=dict)

    def of_text(self, text: str) -> str:
        """Return a text in which names stand for what is not the same twice."""
        for found in sorted(self.texts, key=len, reverse=True):
            text = text.replace(found, self.texts[found])
        for pattern, name in self.patterns.items():
            text = re.sub(pattern, name, text)
        return text

    def of_json(self, value: object) -> object:
        """Return the same of a value of JSON."""
        if isinstance(value, dict):
            return {key: self._of_member(key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.of_json(inner) for inner in value]
        return self.of_text(value) if isinstance(value, str) else value

    def _of_member(self, key: str, value: object) -> object:
        name = self.members.get(key)
        if name is None or value is None:
            return self.of_json(value)
        return dict.fromkeys(value, f"<{name}>") if isinstance(value, dict) else f"<{name}>"


def hashed(content: bytes) -> str:
    """Return length and hash of bytes."""
    return f"{len(content):,} bytes, sha256:{hashlib.sha256(content).hexdigest()}"


def outline(content: bytes, placeholders: Placeholders) -> Iterator[str]:
    """Return the lines that stand for JSON, for text, or for bytes."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield hashed(content)
        return
    try:
        value = json.loads(text)
    except ValueError:
        yield from _of_text(placeholders.of_text(text))
    else:
        yield from _of_json(placeholders.of_json(value), "")


def _of_text(text: str) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > _LINES:
        yield f"({len(lines):,} lines, {hashed(text.encode())}), the first:"
        lines = lines[:_HEAD]
    for line in lines:
        yield line if len(line) <= _LONG_LINE else f"{line[:_LONG_LINE]}... ({hashed(line.encode())})"


def _of_json(value: object, before: str) -> Iterator[str]:
    spelt = json.dumps(value, ensure_ascii=True)
    indent = " " * (len(before) - len(before.lstrip()))
    if len(spelt) <= _SHORT:
        yield before + spelt
    elif isinstance(value, dict):
        yield f"{before}{{"
        for key, inner in value.items():
            yield from _of_json(inner, f"{indent}  {json.dumps(key)}: ")
        yield f"{indent}}}"
    elif isinstance(value, list):
        yield f"{before}[ ({len(value):,} items, {hashed(spelt.encode())}), the first:"
        yield from _of_json(value[0], f"{indent}  ")
        yield f"{indent}]"
    else:
        yield f"{before}{spelt[:_SHORT]}... ({hashed(spelt.encode())})"
