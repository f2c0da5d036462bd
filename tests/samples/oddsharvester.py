"""Matches as OddsHarvester writes them: scraped before they were played, and afterwards with histories."""

import csv
import io
import json
import random
from datetime import timedelta

from tests.samples.walks import matches

BOOKS = ("Birch", "Cedar", "Maple")
_TIME = "%Y-%m-%d %H:%M:%S UTC"
_LOCAL = "%Y-%m-%dT%H:%M:%S"
MARKETS = {
    "1x2_market": (("1", 2.1), ("X", 3.4), ("2", 3.6)),
    "over_under_2_5_market": (("odds_over", 1.9), ("odds_under", 1.95)),
}


def moved(dice, odds):
    return round(odds * (1 + dice.uniform(-0.04, 0.04)), 2)


def book(dice, name, sides, kickoff, *, histories):
    """Return a book of a market, with the changes of each side where that is asked for."""
    said = {label: f"{moved(dice, odds):.2f}" for label, odds in sides}
    said |= {"bookmaker_name": name, "period": "FullTime", "submarket_name": "1X2" if len(sides) == 3 else "Over/Under +2.5"}
    if histories:
        opened = kickoff - timedelta(days=3, minutes=dice.randrange(60))
        said["odds_history_data"] = [
            {
                "odds_history": [
                    {"timestamp": (kickoff - timedelta(minutes=m)).strftime(_LOCAL), "odds": moved(dice, odds)}
                    for m in sorted(dice.sample(range(2, 600), 4))
                ],
                "opening_odds": {"timestamp": opened.strftime(_LOCAL), "odds": odds},
            }
            for _, odds in sides
        ]
    return said


def rows(seed=1, *, histories=True, hours_before=None):
    """Return matches; scraped two days after they were played, or so many hours before."""
    dice = random.Random(seed)
    found = []
    for match in matches(count=3):
        scraped = match.kickoff + (timedelta(days=2) if hours_before is None else timedelta(hours=-hours_before))
        row = {
            "scraped_date": scraped.strftime(_TIME), "match_date": match.kickoff.strftime(_TIME), "season": None,
            "match_link": f"https://example.org/h2h/#{match.id}", "home_team": match.names[0], "away_team": match.names[1],
            "league_name": "Grove", "home_score": "2", "away_score": "1",
        }  # fmt: skip
        for market, sides in MARKETS.items():
            row[market] = [book(dice, name, sides, match.kickoff, histories=histories) for name in BOOKS]
        found.append(row)
    return found


def as_csv(some):
    """Return rows as a CSV, where lists are the texts that Python makes of them."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(some[0]))
    writer.writeheader()
    writer.writerows(some)
    return out.getvalue()


def write(folder, seed=1):
    """Write matches with histories as JSON, and two scrapes before the matches as CSV."""
    (folder / "historic.json").write_text(json.dumps(rows(seed), indent=4))
    for hours in (20, 2):
        some = rows(seed + hours, histories=False, hours_before=hours)
        (folder / f"upcoming_{hours:02}h.csv").write_text(as_csv(some))
