"""Options that say nothing without another one, or beside it, are refused by name: they would be dropped."""

import re

import pytest
from typer.main import get_command

from clvlab.arena.log.sources import SourceLimits
from clvlab.bets.grades import STRATEGY
from clvlab.cli import app, output
from clvlab.law.closing import Window
from clvlab.odds.formats import OddsFormat
from clvlab.odds.margin import Margin
from clvlab.sources.providers import IMPORTERS
from clvlab.statistics.verdict import Tone
from tests.commands import clvlab
from tests.length import few

OWN = """
import polars as pl
import clvlab as cl

@cl.strategy
def own(ticks):
    return ticks.filter(pl.col("prob_bps") >= 9000)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("options")
    (made / "own.py").write_text(OWN)
    (made / "bets.csv").write_text("fixture,time,market,side\n")
    assert clvlab(made, "backtest", "starter", "--fixture", 90000000)[0] == 0
    code, out, _ = clvlab(made, "disclose", "runs/" + next((made / "runs").iterdir()).name, 1)
    assert code == 0
    (made / "one.json").write_text(out)
    return made


def test_defaults_and_names_that_commands_spell_are_those_of_the_library():
    """The modules that define them load Polars, for which help would wait."""
    commands = get_command(app).commands
    defaults = {
        ("backtest", "horizon_s"): Window().min_clv_horizon_s,
        ("sweep", "horizon_s"): Window().min_clv_horizon_s,
        ("bets grade", "horizon_s"): Window().min_clv_horizon_s,
        ("bets grade", "agent_id"): STRATEGY,
        ("log audit", "max_entries"): SourceLimits().entries,
    }
    names = {
        ("bets grade", "odds_format"): OddsFormat,
        ("packs import", "odds_format"): OddsFormat,
        ("packs import", "margin"): Margin,
        ("packs import", "source"): sorted(IMPORTERS),
    }

    def option(command, name):
        found = commands
        for word in command.split():
            made = found[word]
            found = getattr(made, "commands", {})
        return next(one for one in made.params if one.name == name)

    assert {where: option(*where).default for where in defaults} == defaults
    for where, known in names.items():
        assert ", ".join(known) in option(*where).help, where
    assert set(output._TONES) == set(Tone)


@few(12)
@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("backtest starter --owner me", "--owner goes with --log"),
        ("backtest starter --no-audit", "audit=False changes nothing"),
        ("backtest starter --stepped", "a template needs no isolation"),
        ("backtest starter --reads bets.csv", "a template needs no isolation"),
        ("backtest starter --network", "a template needs no isolation"),
        ("backtest starter --param colour=1", "no parameter 'colour'"),
        ("backtest starter --policy colour=1", "no limit 'colour'"),
        ("backtest starter --duration-s 60", "duration_s"),
        ("backtest starter --close ash", "ash"),
        ("live baseline --feed replay --owner me", "--owner goes with --log"),
        ("live baseline --feed replay --reads bets.csv", "--reads goes with file.py:name"),
        ("live baseline --feed replay --network", "--network goes with file.py:name"),
        ("sweep starter --grid stake=1 --network", "a template needs no isolation"),
        ("sweep starter --grid colour=1", "no parameter 'colour'"),
        ("bets grade bets.csv --pack starter --owner me", "--owner goes with --log"),
        ("verify latest --agent own.py:own", "--agent goes with --replay"),
        ("verify latest --replay --reads bets.csv", "--reads goes with --agent"),
        ("verify latest --replay --network", "--network goes with --agent"),
        ("verify latest --without-witness", "--without-witness goes with --require log"),
        ("verify latest --require anchor --without-witness", "--without-witness goes with --require log"),
        ("verify one.json --replay", "--replay goes with runs"),
        ("verify latest one.json --second-opinion", "--second-opinion goes with runs"),
        ("verify one.json --pack starter", "--pack goes with runs"),
        ("verify one.json --trust keys.json", "--trust goes with runs"),
        ("show latest --decisions 3 --json", "--decisions goes with the printed card"),
        ("show latest --decisions 3 --seq 1", "--decisions goes with the printed card"),
        ("bundle RUN --out new.clv --since old.txt", "--since goes with --log"),
        ("bundle RUN --out new.clv --log-key key.txt", "--log-key goes with --log"),
        ("bundle RUN --out new.clv --checkpoint note.txt", "--checkpoint goes with --log"),
        ("service serve --keys mine", "--keys goes with --dev"),
        ("service serve --devfeed", "--dev"),
        ("service serve --dev --speed 5", "--speed goes with --devfeed"),
    ],
)
def test_an_option_that_would_be_dropped_is_refused_by_name(folder, call, named):
    before = sorted(folder.rglob("*"))
    run = next((folder / "runs").iterdir())

    code, out, err = clvlab(folder, *(str(run) if word == "RUN" else word for word in call.split()))

    assert (code, out) == (2, "")
    assert named in " ".join(re.sub("[│╭╮╰╯─]", " ", err).split())
    assert sorted(folder.rglob("*")) == before
