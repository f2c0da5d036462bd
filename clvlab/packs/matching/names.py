"""Names of teams across sources: which belong to one team, and how alike two are, word by word."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache, cached_property, lru_cache
from pathlib import Path

from clvlab.errors import ArgumentError, SourceError

# Letters that are not a letter with an accent.
_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "æ": "ae", "œ": "oe", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i"})
# Words of clubs that do not change the meaning of a name.
_EMPTY = frozenset({
    "fc", "afc", "cf", "sc", "ac", "ssc", "as", "ss", "sv", "svv", "vfb", "vfl", "tsg", "tsv", "fsv", "bv", "bsc",
    "bk", "fk", "sk", "nk", "if", "ik", "ff", "ud", "cd", "sd", "rcd", "rc", "cp", "club", "calcio", "de", "del",
    "da", "do", "the", "of", "and", "et", "und", "1", "04", "05", "07", "96", "98", "1846", "1899", "1900", "1909",
    "1910",
})  # fmt: skip
# Words that many clubs share: they weigh less than others, and two different ones still make two clubs.
_COMMON = frozenset({
    "united", "city", "town", "athletic", "atletico", "sporting", "real", "racing", "olympique", "dynamo", "dinamo", "borussia",
    "eintracht", "fortuna", "wanderers", "rovers", "albion", "hotspur", "county", "north", "south", "east", "west", "saint",
    "st", "new",
})  # fmt: skip
_WEIGHT = 0.6
# Other teams of a club: a name with such a word and a name without it are two teams.
_MARKERS = {
    "w": "women", "women": "women", "woman": "women", "ladies": "women", "femenino": "women", "feminine": "women",
    "frauen": "women", "vrouwen": "women", "wfc": "women", "ii": "second", "b": "second", "reserves": "second",
    "res": "second", "youth": "youth", "jong": "youth", "amateurs": "second", "castilla": "second",
}  # fmt: skip
_NUMBER = re.compile(r"\d+")
_AGE = re.compile(r"(?:u|under)(\d{2})")
_AND = re.compile("[&＆﹠]")
_LONG = {"la": ("los", "angeles"), "ny": ("new", "york"), "sf": ("san", "francisco")}
_LEAST = 3  # fewest letters of an abbreviation
_SLIP = 5  # fewest letters of a word in which one may be wrong
_ALIKE = 0.8  # for two words that differ by a slip


@lru_cache(maxsize=1 << 16)
def folded(name: str) -> str:
    """Return a name without case, accents and punctuation.

    Examples
    --------
    >>> folded("Atlético  de Madrid"), folded("Nott'm Forest"), folded("Bodø/Glimt")
    ('atletico de madrid', 'nottm forest', 'bodo glimt')
    """
    text = unicodedata.normalize("NFKD", name.casefold().translate(_LETTERS))
    plain = "".join(letter for letter in text if not unicodedata.combining(letter))
    return " ".join(re.sub(r"[\W_]+", " ", re.sub(r"['’`](?=\w)", "", plain)).split())


@lru_cache(maxsize=1 << 16)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words for comparing a name: those of Latin letters and digits.

    Examples
    --------
    >>> words_of("1. FC Köln"), words_of("Brighton & Hove Albion")
    (('1', 'fc', 'koln'), ('brighton', 'and', 'hove', 'albion'))
    """
    return tuple(re.findall("[a-z0-9]+", folded(_AND.sub(" and ", name))))


@dataclass(frozen=True)
class TeamAliases:
    """Names of one team that no rule derives from each other; ``teams`` has the folded names of each."""

    teams: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def _names(self) -> Mapping[str, frozenset[str]]:
        found = dict[str, frozenset[str]]()
        for team in self.teams:
            whole = frozenset(team).union(*(found.get(name, ()) for name in team))
            found |= dict.fromkeys(whole, whole)
        return found

    def names_of(self, name: str) -> frozenset[str]:
        return self._names.get(folded(name), frozenset({folded(name)}))

    def likeness(self, one: str, other: str) -> float:
        return 1.0 if self.teams and folded(other) in self._names.get(folded(one), ()) else likeness(one, other)


NO_ALIASES = TeamAliases()


def read_aliases(path: str | Path | None) -> TeamAliases:
    """Read names of teams from a TOML file, ``teams = [["Wolves", "Wolverhampton Wanderers"]]``; empty without a file.

    Raises
    ------
    ArgumentError
        The value is not a path.
    SourceError
        The file is missing, or a name or list in it is not valid.
    """
    if path is None:
        return NO_ALIASES
    if not isinstance(path, str | Path):
        raise ArgumentError(f"team_aliases is the path of a file, not {path!r:.80}")
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"team aliases can't be read from {str(path)!r:.200}: {error}") from error
    teams = content.get("teams")
    if content.keys() != {"teams"} or not isinstance(teams, list):
        raise SourceError(
            f'{path} holds teams = [["Wolves", "Wolverhampton Wanderers"]], and nothing else, not {content!r:.120}'
        )
    place = dict[str, int]()
    for number, team in enumerate(teams):
        if not isinstance(team, list) or len(team) < 2 or not all(isinstance(name, str) and folded(name) for name in team):
            raise SourceError(f"{path}: a team has two names or more, texts with letters or digits, not {team!r:.120}")
        for name in team:
            if (other := place.setdefault(folded(name), number)) != number:
                raise SourceError(f"{path}: {name!r:.80} is of two teams, {teams[other]!r:.80} and {team!r:.80}")
    return TeamAliases(tuple(tuple(dict.fromkeys(map(folded, team))) for team in teams))


@cache
def usual_aliases() -> TeamAliases:
    return read_aliases(Path(__file__).with_name("team-aliases.toml"))


@cache
def _firsts() -> Mapping[str, str]:
    return {name: team[0] for team in usual_aliases().teams for name in team}


@lru_cache(maxsize=1 << 16)
def likeness(one: str, other: str) -> float:
    """Return how alike two names of teams are, from 0 to 1 for the same.

    Examples
    --------
    >>> likeness("Nott'm Forest", "Nottingham Forest") > 0.85, likeness("Man United", "Manchester City") < 0.7
    (True, True)
    >>> likeness("QPR", "Queens Park Rangers") > 0.85, likeness("Arsenal", "Arsenal Women"), likeness("team1399", "team1389")
    (True, 0.0, 0.0)
    """
    (first, marks), (second, others) = _core(one), _core(other)
    if marks != others or _are_numbered_apart(one, other):
        return 0.0
    if first == second or _same(first) == _same(second):
        return 1.0 if first and second else 0.0
    if _are_initials(first, second) or _are_initials(second, first):
        return 0.9
    return max(_overlap(first, second), _overlap(_expanded(first), _expanded(second)))


def _are_numbered_apart(one: str, other: str) -> bool:
    """Whether each name has a number that the other lacks, which a slip of a letter does not explain."""
    first, second = _numbers(one), _numbers(other)
    return not (_has_all(first, second) or _has_all(second, first))


def _has_all(numbers: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return all(
        any(number == other or ({len(number), len(other)} == {2, 4} and number[-2:] == other[-2:]) for number in numbers)
        for other in others
    )


@lru_cache(maxsize=1 << 16)
def _numbers(name: str) -> tuple[str, ...]:
    """Return the numbers in a name, except a leading "1."; other sources may shorten a year to its last two digits."""
    words = words_of(name)
    return tuple(_NUMBER.findall(" ".join(words[1:] if words[:1] == ("1",) else words)))


def may_be_alike(one: str, other: str) -> bool:
    """Reject most unlike names quickly: similar words begin with the same letter."""
    return not _letters(one).isdisjoint(_letters(other))


@lru_cache(maxsize=1 << 16)
def _letters(name: str) -> frozenset[str]:
    words = _core(name)[0]
    return frozenset(word[0] for word in (*words, *_expanded(words)))


@lru_cache(maxsize=1 << 16)
def _core(name: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the words of a name that identify the club, and those that identify its team."""
    words = tuple(long for word in words_of(name) for long in _LONG.get(word, (word,)))
    marks = {_MARKERS[word] for word in words[1:] if word in _MARKERS}
    marks |= {found[0][-2:] for word in words if (found := _AGE.fullmatch(word))}
    marks |= {_MARKERS[words[0]]} if words[:1] == ("jong",) else set()
    kept = tuple(
        word
        for place, word in enumerate(words)
        if word not in _EMPTY and not _AGE.fullmatch(word) and not ((place or word == "jong") and word in _MARKERS)
    )
    return kept or words, frozenset(marks)


def _same(words: tuple[str, ...]) -> str:
    text = " ".join(words)
    return _firsts().get(text, text)


def _expanded(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_same(words).split())


def _are_initials(short: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return len(short) == 1 and 2 < len(short[0]) == len(words) and short[0] == "".join(word[0] for word in words)


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """Return the weighted share of the shorter name's words that the longer has, slightly less for remaining words."""
    short, long = sorted((one, other), key=lambda words: (len(words), words))
    left, found, rare = list(long), 0.0, False
    for word in sorted(short, key=len, reverse=True):
        best = max(left, key=lambda candidate: _word(word, candidate), default="")
        score = _word(word, best) if best else 0.0
        found += score * _weight(word)
        rare |= bool(score) and word not in _COMMON
        if score:
            left.remove(best)
    whole = sum(map(_weight, short))
    if not whole or not rare:  # sharing only "United" does not make two clubs alike
        return 0.0
    return max(0.0, found / whole - 0.05 * min(len(left), 2))


def _weight(word: str) -> float:
    return _WEIGHT if word in _COMMON else 1.0


@lru_cache(maxsize=1 << 16)
def _word(one: str, other: str) -> float:
    """Return how alike two words are: the same, a beginning, an abbreviation with letters left out, or a slip."""
    if one == other:
        return 1.0
    short, long = sorted((one, other), key=lambda word: (len(word), word))
    if {short, long} in ({"utd", "united"}, {"st", "saint"}, {"munich", "munchen"}):
        return 1.0
    if len(short) < _LEAST or short[0] != long[0] or short.isdigit():
        return 0.0
    if long.startswith(short):
        return 0.92
    letters = iter(long)
    if len(short) * 2 <= len(long) + 1 and short[-1] == long[-1] and all(letter in letters for letter in short):
        return 0.88
    if len(long) - len(short) > 1 or len(short) < _SLIP:
        return 0.0
    ratio = SequenceMatcher(None, short, long, autojunk=False).ratio()
    return ratio * 0.95 if ratio >= _ALIKE else 0.0
