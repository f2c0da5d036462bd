"""Matches that are nobody's, and prices of their sides that walk."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

KICKOFF = datetime(2026, 3, 1, 15, 0, tzinfo=UTC)


class Match(NamedTuple):
    """A match, and the shares of its sides: home, draw, away."""

    id: str
    names: tuple[str, str]
    kickoff: datetime
    shares: tuple[str, str, str]

    @property
    def kickoff_text(self):
        return self.kickoff.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def kickoff_s(self):
        return int(self.kickoff.timestamp())


def matches(prefix="KXGAME", count=2):
    """Return matches a day apart; their shares are tickers."""
    names = [("Ash", "Elm"), ("Oak", "Fir"), ("Yew", "Bay")]
    return [
        Match(
            f"{home}-{away}".lower(),
            (home, away),
            KICKOFF + timedelta(days=day),
            tuple(f"{prefix}-26MAR{day + 1:02}{home}{away}-{side}".upper() for side in (home, "TIE", away)),
        )
        for day, (home, away) in enumerate(names[:count])
    ]


def walk(dice, share, steps):
    """Return prices of a share in cents: middles that walk, and at most five cents between bid and ask."""
    middle = {0: 48, 1: 27, 2: 25}[share]
    found = []
    for _ in range(steps):
        middle = min(90, max(8, middle + dice.choice([-1, 0, 0, 1])))
        found.append((middle - dice.randint(1, 2), middle + dice.randint(1, 3)))
    return found


def mapping(some, extra=()):
    """Return the text of a mapping: the three shares of a match are its 1X2 market."""
    lines = ["fixtures:"]
    for match in some:
        lines += [
            f"  - id: {match.id}",
            f"    names: [{', '.join(match.names)}]",
            f"    kickoff: {match.kickoff_text}",
            "    markets:",
            "      1X2_PARTICIPANT_RESULT||: {{part1: '{}', draw: '{}', part2: '{}'}}".format(*match.shares),
            *(f"      {key}: {{yes: '{asset}'}}" for owner, key, asset in extra if owner == match.id),
        ]
    return "\n".join(lines) + "\n"
