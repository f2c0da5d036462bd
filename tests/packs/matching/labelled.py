"""``python -m tests.packs.matching.labelled``: how matching does over pairs whose truth is known, made of real fixtures.

200 fixtures of football-data and The Odds API are written a second time as another source would: other names, the teams the
other way round, yes and no for one team, a kickoff some minutes or a day away, prices of its own; beside them each source has
fixtures that the other one has not. Pairs that two matches could claim leave the count: those whose teams meet again in either
source within the time by which a kickoff may have been moved.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import random
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clvlab.packs.matching.fixtures import ListedFixture
from clvlab.packs.matching.markets import market_of
from clvlab.packs.matching.matching import FAR_MS, gaps_of, matched

PAIRS, ALONE = 200, 150
SIDES = ("part1", "draw", "part2")
Truth = dict[int, tuple[int, bool]]
HOUR_MS = 3_600_000

# As other sources write teams of the shared football-data files.
OFFICIAL = {
    "Man United": "Manchester United FC", "Man City": "Manchester City FC", "Nott'm Forest": "Nottingham Forest",
    "Wolves": "Wolverhampton Wanderers", "Tottenham": "Tottenham Hotspur", "Brighton": "Brighton & Hove Albion FC",
    "West Ham": "West Ham United", "Newcastle": "Newcastle Utd.", "Leeds": "Leeds United", "Leicester": "Leicester City",
    "Norwich": "Norwich City", "Ipswich": "Ipswich Town", "Luton": "Luton Town", "Sheffield United": "Sheffield Utd",
    "Bournemouth": "AFC Bournemouth", "West Brom": "West Bromwich Albion", "Crystal Palace": "Crystal Palace F.C.",
    "Bayern Munich": "FC Bayern München", "FC Koln": "1. FC Köln", "Ein Frankfurt": "Eintracht Frankfurt",
    "M'gladbach": "Borussia Mönchengladbach", "Dortmund": "BV Borussia 09 Dortmund", "Leverkusen": "Bayer 04 Leverkusen",
    "Mainz": "1. FSV Mainz 05", "Hoffenheim": "TSG 1899 Hoffenheim", "Stuttgart": "VfB Stuttgart", "Wolfsburg": "VfL Wolfsburg",
    "Bochum": "VfL Bochum 1848", "Werder Bremen": "SV Werder Bremen", "Augsburg": "FC Augsburg", "Freiburg": "SC Freiburg",
    "Heidenheim": "1. FC Heidenheim 1846", "Union Berlin": "1. FC Union Berlin", "Darmstadt": "SV Darmstadt 98",
    "RB Leipzig": "RasenBallsport Leipzig", "Twente": "FC Twente '65", "Utrecht": "FC Utrecht", "Groningen": "FC Groningen",
    "For Sittard": "Fortuna Sittard", "Zwolle": "PEC Zwolle", "Nijmegen": "N.E.C. Nijmegen", "Volendam": "FC Volendam",
    "Heerenveen": "SC Heerenveen", "Heracles": "Heracles Almelo", "PSV Eindhoven": "PSV", "AZ Alkmaar": "AZ",
    "Ajax": "AFC Ajax", "Feyenoord": "Feyenoord Rotterdam", "Telstar": "SC Telstar", "Excelsior": "SBV Excelsior",
    "NAC Breda": "NAC Breda", "Sparta Rotterdam": "Sparta Rotterdam", "Go Ahead Eagles": "Go Ahead Eagles",
    "South Korea": "Korea Republic", "Czech Republic": "Czechia", "Turkey": "Türkiye", "Ivory Coast": "Côte d'Ivoire",
    "USA": "United States", "Bosnia & Herzegovina": "Bosnia and Herzegovina", "Iran": "IR Iran", "Cape Verde": "Cabo Verde",
    "DR Congo": "Congo DR", "Curaçao": "Curacao", "Los Angeles Dodgers": "LA Dodgers", "New York Yankees": "NY Yankees",
    "San Francisco Giants": "SF Giants", "St. Louis Cardinals": "St Louis Cardinals", "Los Angeles Angels": "LA Angels",
}  # fmt: skip


@dataclass
class Match:
    """A match, with the probabilities of its winner by side, at an hour and at the end."""

    teams: tuple[str, str]
    kickoff_ms: int
    early: dict[str, float]
    late: dict[str, float]


@dataclass
class Source:
    """A source's fixtures and prices, by the number that it gives them."""

    listed: dict[int, ListedFixture] = field(default_factory=dict)
    prices: dict[int, dict[tuple[str, str], tuple[list[int], list[int]]]] = field(default_factory=dict)
    truth: dict[int, Match] = field(default_factory=dict)

    def add(self, number: int, match: Match, key: str, sides: dict[str, tuple[float, float]], **other: object) -> None:
        teams, kickoff = other.get("teams", match.teams), other.get("kickoff_ms", match.kickoff_ms)
        market = market_of(key, sides, teams)
        self.listed[number] = ListedFixture(number, tuple(teams), kickoff, () if market is None else (market,))
        times = [kickoff - 30 * HOUR_MS, kickoff - HOUR_MS // 2]
        self.prices[number] = {(key, side): (times, [round(10_000 * one) for one in own]) for side, own in sides.items()}
        self.truth[number] = match


@dataclass
class Outcome:
    """What came of it."""

    counted: int
    right: int
    wrong: int
    inverted: int
    refused: int
    claimed: int
    claimed_taken: int
    alone: int

    @property
    def share(self) -> float:
        return self.right / self.counted


def football(folder: Path) -> list[Match]:
    """Read matches of football-data.co.uk with the prices of one book, before and at the close."""
    found = []
    for path in sorted(folder.glob("*.csv.gz")):
        text = gzip.decompress(path.read_bytes()).decode("utf-8-sig", errors="replace")
        for row in csv.DictReader(io.StringIO(text)):
            names = ("B365H", "B365D", "B365A"), ("B365CH", "B365CD", "B365CA")
            if not row.get("Date") or not all(row.get(name) for group in names for name in group):
                continue
            day = datetime.strptime(row["Date"], "%d/%m/%Y").replace(tzinfo=UTC)
            hour, minute = map(int, (row.get("Time") or "15:00").split(":"))
            kickoff = round((day + timedelta(hours=hour, minutes=minute)).timestamp() * 1000)
            early, late = (_probs(dict(zip(SIDES, (float(row[name]) for name in group), strict=True))) for group in names)
            found.append(Match((row["HomeTeam"], row["AwayTeam"]), kickoff, early, late))
    return found


def odds_api(folder: Path, name: str) -> list[Match]:
    """Read matches of The Odds API with the first and the last prices of one book before the start."""
    import polars as pl

    fixtures = {row["event_id"]: row for row in pl.read_csv(folder / f"{name}_fixtures.csv").iter_rows(named=True)}
    ticks = (
        pl.read_parquet(folder / f"{name}_ticks.parquet")
        .filter(pl.col("market").cast(pl.String) == "h2h", pl.col("market_last_update") < pl.col("commence_time"))
        .with_columns(pl.col("event_id", "outcome", "bookmaker").cast(pl.String))
        .sort("market_last_update")
        .group_by("event_id", "bookmaker", "outcome", maintain_order=True)
        .agg(pl.first("price_decimal").alias("early"), pl.last("price_decimal").alias("late"))
    )
    found = []
    for (event, _), own in sorted(ticks.group_by("event_id", "bookmaker"), key=lambda one: one[0]):
        fixture = fixtures[event]
        prices = {row["outcome"]: (row["early"], row["late"]) for row in own.iter_rows(named=True)}
        teams = fixture["home_team"], fixture["away_team"]
        sides = dict(zip(("part1", "part2", "draw"), (*teams, "Draw"), strict=True))
        known = {side: prices[name] for side, name in sides.items() if name in prices}
        if len(known) < 2 or (found and found[-1][0] == event):
            continue
        kickoff = round(datetime.fromisoformat(fixture["commence_time"]).timestamp() * 1000)
        early, late = (_probs({side: own[at] for side, own in known.items()}) for at in (0, 1))
        found.append((event, Match(teams, kickoff, early, late)))
    return [match for _, match in found]


def _probs(odds: dict[str, float]) -> dict[str, float]:
    whole = sum(1 / price for price in odds.values())
    return {side: 1 / price / whole for side, price in odds.items()}


def made(matches: list[Match], seed: int = 20_261_123, pairs: int = PAIRS, alone: int = ALONE) -> tuple[Source, Source, Truth]:
    """Return two sources of some matches, and which fixture of the second each of the first is, turned or not."""
    draw = random.Random(seed)
    chosen = draw.sample(matches, min(len(matches), pairs + 2 * alone))
    again = _meeting_again(matches)
    first, second, truth = Source(), Source(), {}
    for number, match in enumerate(chosen):
        sides = {side: (match.early[side], match.late[side]) for side in match.late}
        if number < pairs + alone:
            first.add(number, match, "h2h||", sides)
        if number < pairs or number >= pairs + alone:
            other = 10_000 + number
            truth |= {number: (other, _retold(draw, second, other, match, again))} if number < pairs else {}
            if number >= pairs:
                _retold(draw, second, other, match, again)
    return first, second, truth


def _meeting_again(matches: list[Match]) -> set[tuple[frozenset[str], int]]:
    """Return the matches, by teams and kickoff, whose teams meet again within two days: none of these is moved by a day."""
    times: dict[frozenset[str], list[int]] = {}
    for match in matches:
        times.setdefault(frozenset(match.teams), []).append(match.kickoff_ms)
    return {
        (teams, one)
        for teams, own in times.items()
        for one in own
        if any(one != other and abs(one - other) <= 48 * HOUR_MS for other in own)
    }


def _retold(draw: random.Random, source: Source, number: int, match: Match, again: set[tuple[frozenset[str], int]]) -> bool:
    """Tell a match as another source would; returns whether the teams stand the other way round."""
    moved = draw.choices([draw.randint(-12, 12) * 60_000, 2 * HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS], [80, 8, 6, 6])[0]
    moved = moved if (frozenset(match.teams), match.kickoff_ms) not in again else moved % (2 * HOUR_MS)
    names = tuple(_renamed(draw, team) for team in match.teams)
    turned = draw.random() < 0.2
    noise = {side: draw.gauss(0, 0.012) for side in match.late}
    sides = {
        side: tuple(min(0.98, max(0.02, own[side] + noise[side])) for own in (match.early, match.late)) for side in match.late
    }
    if turned:
        names = names[::-1]
        sides = {{"part1": "part2", "part2": "part1"}.get(side, side): own for side, own in sides.items()}
    key, style = "1X2_PARTICIPANT_RESULT||", draw.random()
    if style < 0.2:
        role = draw.choice(["home", "away"])
        yes = sides["part1" if role == "home" else "part2"]
        key, sides = f"winner_{role}||", {"yes": yes, "no": tuple(1 - one for one in yes)}
    elif style < 0.4:
        sides = {dict(zip(("part1", "part2"), names, strict=True)).get(side, side): own for side, own in sides.items()}
    source.add(number, match, key, sides, teams=names, kickoff_ms=match.kickoff_ms + moved)
    return turned


def _renamed(draw: random.Random, team: str) -> str:
    name = draw.choice([team, OFFICIAL.get(team, team)])
    return draw.choice([str, str.upper, str.lower])(name)


def judged(first: Source, second: Source, truth: Truth) -> Outcome:
    """Match, and hold it against the truth."""
    found = matched(
        [*first.listed.values()],
        [*second.listed.values()],
        gaps_of(first.listed, second.listed, first.prices.__getitem__, second.prices.__getitem__),
    )
    taken = {pair.first: pair for pair in found.pairs}
    claimed = {number for number in truth if _could_claim(number, first, second, truth)}
    counted = set(truth) - claimed
    right = {one for one in counted if one in taken and (taken[one].second, taken[one].swapped) == truth[one]}
    wrong = [pair for pair in found.pairs if truth.get(pair.first, (None, None))[0] != pair.second]
    inverted = [p for p in found.pairs if truth.get(p.first, (None, None))[0] == p.second and truth[p.first][1] != p.swapped]
    refused = {number for one in found.refused for number in one.first} & counted
    return Outcome(
        len(counted), len(right), len(wrong), len(inverted), len(refused), len(claimed), len(claimed & set(taken)),
        len(set(first.listed) - set(truth) - set(taken)),
    )  # fmt: skip


def _could_claim(number: int, first: Source, second: Source, truth: Truth) -> bool:
    """Tell whether the teams of a pair meet once more, in either source, in the time by which a kickoff may be moved."""
    ours, theirs = first.listed[number], second.listed[truth[number][0]]
    teams = frozenset(first.truth[number].teams)
    others = [
        one.kickoff_ts_ms
        for source, own in ((first, number), (second, truth[number][0]))
        for one in source.listed.values()
        if one.fixture_id != own and frozenset(source.truth[one.fixture_id].teams) == teams
    ]
    return any(abs(at - own.kickoff_ts_ms) <= FAR_MS for at in others for own in (ours, theirs))


def shared(folder: Path) -> list[Match]:
    """Read all matches of the shared folder."""
    names = ("worldcup", "mlb", "kbo")
    return football(folder / "football-data") + [one for name in names for one in odds_api(folder / "the-odds-api", name)]


def main() -> int:
    folder = Path(os.environ.get("CLVLAB_REALDATA", Path(__file__).parents[4] / "shared" / "data"))
    outcome = judged(*made(shared(folder)))
    sys.stdout.write(f"{outcome}\n{outcome.share:.1%} of {outcome.counted} pairs\n")
    return 0 if outcome.share >= 0.95 and not outcome.wrong and not outcome.inverted else 1


if __name__ == "__main__":
    sys.exit(main())
