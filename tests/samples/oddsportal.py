"""A table as people scrape it off OddsPortal: a row a match, its opening and its closing odds."""

import random

from tests.samples.walks import matches


def text(seed=1, delimiter=","):
    """Return the table."""
    dice = random.Random(seed)
    lines = ["league,date,time,home,away,score,open_1,open_X,open_2,1,X,2"]
    for match in matches(count=3):
        odds = [f"{base * (1 + dice.uniform(-0.05, 0.05)):.2f}" for base in (2.1, 3.4, 3.6) * 2]
        day, clock = match.kickoff.strftime("%d %b %Y"), match.kickoff.strftime("%H:%M")
        lines.append(",".join(["Grove", day, clock, *match.names, "2:1", *odds]))
    return "\n".join(lines).replace(",", delimiter) + "\n"


def write(folder, seed=1):
    """Write the table of a season."""
    (folder / "season.csv").write_text(text(seed))
