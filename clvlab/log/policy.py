"""Which logs and witnesses a reader trusts, and how many of them: files in the form of C2SP ``tlog-policy``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from clvlab.errors import LogError
from clvlab.log.note import Verifier, is_of_other_type

_SPACE = re.compile(r"[ \t]+")
_NONE = "none"
_MAX_LINES = 10_000
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Member:
    """A log or witness of a policy with the URL that it is reached at, if the file names one."""

    key: Verifier
    url: str | None


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy. A group counts if at least so many of its members do; a witness counts if it cosigned.

    Keys of types that are unknown here are read and left out: such a log is not trusted, and such a witness never counts.
    """

    logs: tuple[Member, ...]
    witnesses: Mapping[str, Member]
    groups: Mapping[str, tuple[int, tuple[str, ...]]]
    quorum: str

    @classmethod
    def read(cls, text: str) -> Policy:
        """Read a policy; ``LogError`` names the first wrong line."""
        found = _Statements()
        lines = text.split("\n")
        if len(lines) > _MAX_LINES:
            raise LogError(f"a policy of {len(lines):,} lines, more than {_MAX_LINES:,}")
        for number, line in enumerate(lines, 1):
            try:
                if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in line):
                    raise LogError("a control character")
                words = _SPACE.split(line.strip(" \t"))
                if words != [""] and not words[0].startswith("#"):
                    found.add(*words)
            except LogError as error:
                raise LogError(f"line {number} of the policy: {error}: {line[:120]!r}") from error
        if found.quorum is None:
            raise LogError("the policy has no line 'quorum NAME'")
        return cls(tuple(found.logs), found.witnesses, found.groups, found.quorum)

    def fault(self, signed: Collection[str]) -> str | None:
        """Return why witnesses with these key names are no quorum, or ``None``."""
        counted = {name: one.key.name in signed for name, one in self.witnesses.items()}
        for name, (least, members) in self.groups.items():  # members are defined before their group, so no depth is too great
            counted[name] = sum(counted.get(member, False) for member in members) >= least
        if self.quorum == _NONE or counted.get(self.quorum, False):
            return None
        known = [name for name, one in self.witnesses.items() if one.key.name in signed]
        return f"no quorum {self.quorum!r} of the policy: of its witnesses signed {', '.join(known) or 'none'}"


class _Statements:
    def __init__(self) -> None:
        self.logs: list[Member] = []
        self.witnesses: dict[str, Member] = {}
        self.groups: dict[str, tuple[int, tuple[str, ...]]] = {}
        self.quorum: str | None = None
        self._names: set[str] = set()
        self._members: set[str] = set()
        self._keys: set[tuple[str, str]] = set()

    def add(self, kind: str, *words: str) -> None:
        if kind == "log" and 1 <= len(words) <= 2:
            member = self._member("log", *words)
            self.logs += [member] if member else []
        elif kind == "witness" and 2 <= len(words) <= 3:
            self._define(words[0])
            member = self._member("witness", *words[1:])
            if member is not None:
                self.witnesses[words[0]] = member
        elif kind == "group" and len(words) >= 3:
            self._group(words[0], words[1], words[2:])
        elif kind == "quorum" and len(words) == 1 and self.quorum is None:
            if words[0] != _NONE and words[0] not in self._names:
                raise LogError(f"{words[0]!r} is not defined before it")
            self.quorum = words[0]
        else:
            raise LogError("no line of a policy")

    def _member(self, role: str, text: str, url: str | None = None) -> Member | None:
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise LogError("a key that is no UTF-8 text")
        if is_of_other_type(text):
            self._once(role, text.split("+", 2)[2])
            return None
        key = Verifier.parse(text)
        if key.is_witness != (role == "witness"):
            raise LogError(f"this is not the key of a {role}")
        self._once(role, key.public.hex())
        if role == "witness":  # signers are told apart by the names of their keys
            self._once("witness of the name", key.name)
        return Member(key, url)

    def _once(self, role: str, key: str) -> None:
        if (role, key) in self._keys:
            raise LogError(f"a second {role} {key[:60]}" if role.endswith("name") else f"this key of a {role} stands twice")
        self._keys.add((role, key))

    def _define(self, name: str) -> None:
        if name == _NONE or name in self._names:
            raise LogError(f"the name {name!r} has a meaning already")
        self._names.add(name)

    def _group(self, name: str, least: str, members: tuple[str, ...]) -> None:
        number = {"all": len(members), "any": 1}.get(least)
        if number is None:
            number = int(least) if _NUMBER.fullmatch(least) else 0
        if not 1 <= number <= len(members):
            raise LogError(f"{least!r} of {len(members)} members")
        for member in members:
            if member not in self._names:
                raise LogError(f"{member!r} is not defined before it")
            if member in self._members:
                raise LogError(f"{member!r} is a member already, and counts once")
            self._members.add(member)
        self._define(name)
        self.groups[name] = (number, members)
