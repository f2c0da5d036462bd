"""What newcomers do wrong, and what each of them reads: the value, what is wrong with it, and what to do."""

import re
import shutil

import pandas as pd
import polars as pl
import pytest

import clvlab as cl
from clvlab.errors import (
    AgentError,
    AgentFailedError,
    ArgumentError,
    DecisionError,
    ExecutorError,
    FileError,
    OddsError,
    PackFormatError,
    PolicyError,
    SchemaError,
    SourceError,
    StatisticsError,
    StoreUnreachableError,
    UnknownAgentError,
    UnknownFixtureError,
    UnknownPackError,
    UnknownRunError,
    UnsupportedError,
    WindowError,
)
from tests.length import few

FIXTURE = 90000000
DRIFT = "cumulative-drift"
GRID = {"warmup_ticks": [10, 20]}
ODDS = {
    "fixture": ["m", "m"],
    "time": ["2026-03-01T12:00Z"] * 2,
    "market": ["1X2||"] * 2,
    "side": ["home", "away"],
    "odds": [2.1, 1.8],
}


class Silent(cl.TickAgent):
    def on_tick(self, _):
        return None


class SaysASide(cl.TickAgent):
    def on_tick(self, _):
        return "part1"


class HasNoTick(cl.TickAgent):
    pass


@cl.strategy
def listing(_):
    return []


@cl.strategy
def nothing(_):
    return None


@cl.strategy
def of_pandas(_):
    return pd.DataFrame({"side": ["part1"]})


@cl.strategy
def without_a_side(ticks):
    return ticks.select("fixture_id", "tick_seq", "market_key").head(1)


def decided(**columns):
    """A strategy whose decisions have some columns of other values."""

    @cl.strategy
    def own(ticks):
        first = ticks.filter(pl.col("prob_bps") >= 6000).unique("series", keep="first", maintain_order=True)
        return first.with_columns(**{name: pl.lit(value) for name, value in columns.items()})

    return own


def of_a_book(book):
    return book.back("part1")


def of_nothing():
    return None


def of_rows(rows):
    return rows


@pytest.fixture(scope="module")
def bt():
    return cl.backtest("starter")


@pytest.fixture
def here(tmp_path, monkeypatch, bt):
    """A folder with what lies about: a run, an archive, a file of odds, code without an agent."""
    monkeypatch.chdir(tmp_path)
    bt.run.save("runs")
    shutil.make_archive("packed", "zip", cl.open_pack("starter").source.folder)
    pl.DataFrame(ODDS).write_csv("odds.csv")
    (tmp_path / "mine.py").write_text("x = 1\n")
    return tmp_path


def odds(here, options=(), **columns):
    """Import the table with other columns; None leaves one out."""
    table = {name: values for name, values in (ODDS | columns).items() if values is not None}
    pl.DataFrame(table).write_csv("other.csv")
    return cl.import_odds("csv", "other.csv", here / "pack", **dict(options))


MISTAKES = {
    # names
    "a template's dashes": ("cl.backtest('starter', 'cumulative_drift')", UnknownAgentError,
        "unknown agent 'cumulative_drift': did you mean 'cumulative-drift'? If not, use one of baseline, cumulative-drift,"),
    "a template that is not there": ("cl.backtest('starter', 'kelly')", UnknownAgentError,
        "unknown agent 'kelly': use one of baseline, cumulative-drift, sharp-momentum-v2, llm"),
    "a pack's letter": ("cl.backtest('startr')", UnknownPackError,
        "no pack 'startr': neither a folder with a datapackage.json, nor in the catalog, which has: season, starter: "
        "did you mean 'starter'?"),
    "a verb's letter": ("cl.backtets", AttributeError,
        "module 'clvlab' has no attribute 'backtets': did you mean 'backtests'?"),
    # packs
    "a folder that is missing": ("cl.backtest(here / 'my-pack')", UnknownPackError,
        "my-pack': neither a folder with a datapackage.json"),
    "an archive of a pack": ("cl.open_pack('packed.zip')", UnknownPackError,
        "that is an archive: unpack it, and name the folder"),
    "odds in place of a pack": ("cl.open_pack('odds.csv')", UnknownPackError,
        "that is a file: if it holds odds, clvlab.import_odds(...), or the command 'packs import', makes a pack of it"),
    "a run in place of a pack": ("cl.open_pack(here / 'runs' / bt.run_id)", UnknownPackError,
        "that is the folder of a run: clvlab.open_run(...) opens it"),
    "a frame in place of a pack": ("cl.backtest(pd.DataFrame(ODDS))", UnknownPackError,
        "not a pandas DataFrame: make one of it first, pack = clvlab.import_odds('csv', frame, 'my-pack')"),
    "two packs in place of one": ("cl.backtest(['starter', 'season'])", UnknownPackError,
        "not ['starter', 'season']: clvlab.backtests takes several packs"),
    "one pack in place of several": ("cl.backtests('starter')", PackFormatError,
        "packs is a list of packs, such as ['starter', 'season'], not 'starter'"),
    "no pack": ("cl.open_pack(None)", UnknownPackError,
        "a pack is named by its id or folder, or is a pack, not None; clvlab.packs() lists the available ones"),
    "a hash without its name": ("cl.open_pack('starter', content_hash='abc')", PackFormatError,
        "a content hash is written as sha256:<hex>, not 'abc'"),
    # runs
    "a pack in place of a run": ("cl.open_run(cl.open_pack('starter').source.folder)", UnknownRunError,
        "it is the folder of a pack, which clvlab.open_pack(...) opens"),
    "the folder above a run": ("cl.open_run('runs')", UnknownRunError, "the folder holds runs, such as run_"),
    "a run's id in place of its folder": ("cl.open_run(bt.run_id)", UnknownRunError,
        "here: give the path of the run's folder, or ask the Lab that keeps it"),
    "a result in place of a folder": ("cl.open_run(bt)", UnknownRunError, "write open_run(result.run.save('runs'))"),
    "a run that a lab does not keep": ("cl.Lab().open_run('run_abc')", UnknownRunError, "unknown run 'run_abc'"),
    "a file in place of a folder of runs": ("bt.run.save('odds.csv')", FileError,
        "'odds.csv' is a file: name the folder for the runs"),
    # arguments
    "fixture for fixtures": ("cl.backtest('starter', fixture=FIXTURE)", ArgumentError,
        "backtest has no argument 'fixture': did you mean 'fixtures'? It has: pack, agent, params, fixtures, window, close,"),
    "a parameter as an argument": ("cl.backtest('starter', DRIFT, warmup_ticks=20)", ArgumentError,
        "backtest has no argument 'warmup_ticks'; a parameter of the agent goes into params={'warmup_ticks': ...}"),
    "a sweep without a grid": ("cl.sweep('starter', DRIFT)", ArgumentError,
        "sweep: missing a required argument: 'grid'"),
    "a word in place of a truth": ("cl.backtest('starter', audit='no')", ArgumentError,
        "audit is True or False, not 'no'"),
    # fixtures
    "a number in place of a list": ("cl.backtest('starter', fixtures=FIXTURE)", PackFormatError,
        "fixtures are a list of fixture ids, not 90000000: write fixtures=[90000000]"),
    "a number in quotes": ("cl.backtest('starter', fixtures=['90000000'])", PackFormatError,
        "a fixture is named by its id, a whole number, not '90000000': write 90000000 without quotes"),
    "a fixture that is not there": ("cl.backtest('starter', fixtures=[1])", UnknownFixtureError,
        "fixture 1 is not in pack 'starter'; it has 12: 90000000, 90000001,"),
    "no fixture": ("cl.backtest('starter', fixtures=[])", PackFormatError,
        "name at least one fixture, or omit fixtures= for all"),
    "the ticks of a number": ("cl.open_pack('starter').ticks(FIXTURE)", PackFormatError,
        "write fixtures=[90000000]"),
    # windows and policies
    "a word in place of a window": ("cl.backtest('starter', window='fixed-duration')", WindowError,
        "a window is a clvlab.Window, not 'fixed-duration': write clvlab.Window(end_rule='fixed_duration', duration_s=3600)"),
    "a dict in place of a window": ("cl.backtest('starter', window={'duration_s': 60})", WindowError,
        "a window is a clvlab.Window, not {'duration_s': 60}: write clvlab.Window(duration_s=60)"),
    "an end rule that is none": ("cl.Window(end_rule='prematch')", WindowError,
        "unknown end_rule 'prematch': use one of pre_match, fixed_duration, manual_stop"),
    "an overround in percent": ("odds(here, {'max_overround': 30})", OddsError,
        "max_overround is a share of at most 10, such as 0.3 for 30 %, not 30"),
    "an overround in quotes": ("odds(here, {'max_overround': '0.3'})", OddsError, "for 30 %, not '0.3'"),
    "an overround that is no number": ("odds(here, {'max_overround': float('nan')})", OddsError, "for 30 %, not nan"),
    "books in quotes": ("odds(here, {'books': 'yes'})", ArgumentError, "books is True or False, not 'yes'"),
    "an argument that a window has not": ("cl.Window(min_clv_horizon=60)", ArgumentError,
        "Window has no argument 'min_clv_horizon': did you mean 'min_clv_horizon_s'? It has: window_id, end_rule,"),
    "an argument that a policy has not": ("cl.PolicyEnvelope(max_stakes=60)", ArgumentError,
        "PolicyEnvelope has no argument 'max_stakes': did you mean 'max_stake'? It has: market_allowlist,"),
    "a measure nearly named": ("cl.sweep('starter', DRIFT, GRID, by='clvs', progress=False)", StatisticsError,
        "not by 'clvs': did you mean 'clv'?"),
    "an objective nearly named": ("cl.walk_forward('season', DRIFT, GRID, objective='price-ratio')", StatisticsError,
        "not by 'price-ratio': did you mean 'price_ratio'?"),
    "folds nearly named": ("cl.walk_forward('season', DRIFT, GRID, by='kick_off')", StatisticsError,
        "not 'kick_off': did you mean 'kickoff'?"),
    "a part nearly named": ("bt.tear_sheet().only(market=['1X2'])", ArgumentError,
        "only has no argument 'market': did you mean 'markets'? It has: leagues, markets,"),
    "a text in place of markets": ("bt.tear_sheet().only(markets='1X2')", StatisticsError,
        "markets is a list, as markets=['1X2']"),
    "a number in place of fixtures": ("bt.tear_sheet().only(fixtures=5)", StatisticsError,
        "fixtures is a list, as fixtures=[5]"),
    "a setting of a sheet": ("bt.tear_sheet(confidence=0.9)", ArgumentError, "tear_sheet has no argument 'confidence'"),
    "a setting of a bankroll": ("bt.tear_sheet().bankroll(edges=0.02)", ArgumentError,
        "bankroll has no argument 'edges': did you mean 'edge'?"),
    "a book that is not kept": ("cl.backtest('starter', close='pinnacle')", WindowError,
        "pack 'starter' keeps no book 'pinnacle' to close by; it has the consensus alone: import it with books=True (--books)"),
    "a duration that is missing": ("cl.Window(end_rule='fixed_duration')", WindowError,
        "end_rule fixed_duration needs a duration_s"),
    "a prefix in place of a list": ("cl.Window(market_allowlist='1X2')", WindowError,
        "market_allowlist must be a tuple of prefixes, not '1X2'"),
    "a dict in place of a policy": ("cl.backtest('starter', policy={'max_stake': 5})", PolicyError,
        "a policy is a clvlab.PolicyEnvelope, not {'max_stake': 5}: write clvlab.PolicyEnvelope(max_stake=5)"),
    "a limit that is none": ("cl.backtest('starter', policy={'max_stakes': 5})", PolicyError,
        "a policy has no limit 'max_stakes': did you mean 'max_stake'? It has: market_allowlist,"),
    "a share in place of basis points": ("cl.PolicyEnvelope(min_prob_bps=0.3)", PolicyError,
        "min_prob_bps must be a whole number from 0 to 10000, not 0.3"),
    # agents
    "a class in place of an agent": ("cl.backtest('starter', Silent)", AgentError,
        "Silent is a class, and an agent is an object of it: give Silent()"),
    "a function of a book": ("cl.backtest('starter', of_a_book)", AgentError,
        "of_a_book is a function of a book: write it as the method on_tick(self, book) of a class that derives from "
        "clvlab.TickAgent"),
    "a function of something": ("cl.backtest('starter', of_rows)", AgentError,
        "of_rows is a plain function with 'rows' as its first parameter: write @clvlab.strategy above it"),
    "a function of nothing": ("cl.backtest('starter', of_nothing)", AgentError,
        "of_nothing is a plain function with no parameter: write @clvlab.strategy above it"),
    "no agent": ("cl.backtest('starter', None)", AgentError,
        "an agent is the name of a template (clvlab.agents() lists them), 'file.py:name', or an agent of your own, not None"),
    "a file without the agent's name": ("cl.backtest('starter', 'mine.py')", UnknownAgentError,
        "unknown agent 'mine.py': an agent in a file is named as mine.py:name"),
    "a file without the agent": ("cl.backtest('starter', 'mine.py:agent')", UnknownAgentError,
        "mine.py has no agent 'agent'; it has: none"),
    "an agent that returns a list": ("cl.backtest('starter', listing)", SchemaError,
        "listing must return a polars frame, not list;"),
    "an agent that returns nothing": ("cl.backtest('starter', nothing)", SchemaError,
        "nothing must return a polars frame, not NoneType;"),
    "an agent that returns a frame of pandas": ("cl.backtest('starter', of_pandas)", SchemaError,
        "of_pandas must return a polars frame, not DataFrame of pandas: wrap it in pl.from_pandas(...)"),
    "an agent that returns no side": ("cl.backtest('starter', without_a_side)", SchemaError,
        "returned decisions without side: they need fixture_id, tick_seq, market_key, side"),
    "an agent that returns a word": ("cl.backtest('starter', SaysASide())", AgentError,
        "on_tick must return book.back(...), book.wait(...), several of them, or None, not 'part1'"),
    "an agent without on_tick": ("cl.backtest('starter', HasNoTick())", AgentFailedError,
        "HasNoTick needs an on_tick; for example"),
    "a negative stake": ("cl.backtest('starter', decided(stake=-5))", DecisionError,
        "stake must be 0 to 2**53 - 1: "),
    "a stake with a fraction": ("cl.backtest('starter', decided(stake=2.5))", SchemaError,
        "stake is Float64, not Int64: cast such a column, as by pl.col(...).cast(pl.Int64)"),
    "a lay": ("cl.backtest('starter', decided(action='LAY'))", DecisionError, "action must be BACK or WAIT: "),
    "a strategy's parameter without a default": ("cl.strategy(lambda ticks, x: ticks)", AgentError,
        "parameter 'x' of <lambda> needs a default: it is sealed with the run"),
    "a market in place of a list of them": ("cl.strategy(markets='1X2')(of_rows)", AgentError,
        "markets must be a tuple of prefixes, such as ('1X2',), not '1X2'"),
    # parameters
    "a parameter's letter": ("cl.backtest('starter', DRIFT, params={'warmup_tick': 20})", AgentError,
        "cumulative-drift: no parameter 'warmup_tick': did you mean 'warmup_ticks'? It has: markets, stake,"),
    "a number in quotes as a parameter": ("cl.backtest('starter', DRIFT, params={'stake': '50'})", AgentError,
        "cumulative-drift: parameter stake = '50': must be a whole number; the default is 100"),
    "a parameter below its bound": ("cl.backtest('starter', DRIFT, params={'stake': -5})", AgentError,
        "cumulative-drift: parameter stake = -5: must be greater than or equal to 1; the default is 100"),
    "a list in place of parameters": ("cl.backtest('starter', DRIFT, params=[1])", AgentError,
        "params is a mapping from parameters to values, such as {'stake': 50}, not [1]"),
    "a competitor without parameters": ("cl.Lab().compete('starter', {'a': ('baseline',)})", AgentError,
        "an entry is an agent, or an agent with a mapping of its parameters, such as ('baseline', {'stake': 50}), not"),
    "a value in place of a grid's list": ("cl.sweep('starter', DRIFT, {'warmup_ticks': 20})", StatisticsError,
        "a grid needs parameters, each with a list of values: write {'warmup_ticks': [20]}"),
    "a number of workers as executor": ("cl.sweep('starter', DRIFT, GRID, executor=4)", ExecutorError,
        "an executor is a concurrent.futures.Executor, not 4: leave it out for all cores of this machine, or give"),
    "a measure that is none": ("cl.sweep('starter', DRIFT, GRID, by='roi')", StatisticsError,
        "means are taken by clv, edge, price_ratio, not by 'roi'"),
    "folds by month": ("cl.walk_forward('season', DRIFT, GRID, by='month')", StatisticsError,
        "folds go by 'kickoff', or by a mapping from fixtures to folds, not 'month'"),
    # results
    "95 for 0.95": ("bt.tear_sheet(level=95)", StatisticsError,
        "the level of an interval lies between 0 and 1, as 0.95 does, not 95"),
    "a seed below nothing": ("bt.tear_sheet(seed=-1)", StatisticsError,
        "a seed is a whole number of at least 0, not -1"),
    "an agent of another run": ("bt.tear_sheet('basline')", UnknownAgentError,
        "has no agent 'basline': name one of baseline: did you mean 'baseline'?"),
    "two runs without a list": ("cl.compare(bt, bt)", StatisticsError, ": write compare([a, b])"),
    "one run without a list": ("cl.leaderboard(bt)", StatisticsError, ": write leaderboard([a, b])"),
    "one run to compare": ("cl.compare([bt])", StatisticsError, "a comparison needs at least two backtests, not 1"),
    "a negative edge": ("bt.power(-34)", StatisticsError,
        "an edge is above 0, not -34: name the smallest one that matters to you, as 34 for 34 bps"),
    "an edge in words": ("bt.power('34 bps')", StatisticsError,
        "an edge is a number above 0 in the unit of the mean, as 34 for 34 bps, not '34 bps'"),
    "a column nearly named": ("bt.regress('clv_bps ~ to_close')", StatisticsError,
        "a formula has no column 'to_close': did you mean 'to_close_s'? It has: to_close_s, entry_prob_bps,"),
    "a formula in two texts": ("bt.regress('clv_bps', 'side')", ArgumentError, "regress: too many positional arguments"),
    "code in place of a formula": ("bt.regress('clv_bps ~ (lambda: 1)()')", StatisticsError,
        "a formula has columns, log(), + and :, not '1', as in"),
    "a stake in words": ("bt.bankroll(staking='kelly')", StatisticsError,
        "a way to stake is a clvlab.statistics.Staking, not 'kelly'"),
    "a file in a folder that is not there": ("bt.to_csv('nowhere/x.csv')", FileError,
        "there is no folder 'nowhere' to write 'x.csv' in: make it first"),
    "a number in words": ("bt.run.decision('first')", cl.errors.EvidenceError,
        "a line of the evidence is named by its number, a whole one from 0 on, not 'first'"),
    # laboratories
    "a folder in place of a laboratory": ("cl.Lab(here)", StoreUnreachableError,
        "is a folder, and a laboratory is a file: write Lab('"),
    "a service without http": ("cl.Lab('localhost:8000')", UnsupportedError,
        "a service is named by its whole URL: write Lab('http://localhost:8000')"),
    # odds
    "a source's dash": ("cl.import_odds('footballdata', 'odds.csv', 'out')", SourceError,
        "unknown source 'footballdata': use one of betfair, betfair-csv, csv, football-data, kalshi, oddsharvester, "
        "oddsportal, parquet, pmxt, polymarket, the-odds-api, trades, txline: "
        "did you mean 'football-data'?"),
    "the file before its source": ("cl.import_odds('odds.csv', 'csv', 'out')", SourceError,
        "the source comes first, then the files: 'csv', ..."),
    "a file that is missing": ("cl.import_odds('csv', 'none.csv', 'out')", SourceError,
        "no such file or folder: none.csv"),
    "a place that is taken": ("cl.import_odds('csv', 'odds.csv', 'runs')", PackFormatError,
        "'runs' exists; a pack is never overwritten: name another folder"),
    "no place": ("cl.import_odds('csv', 'odds.csv')", ArgumentError,
        "import_odds: missing a required argument: 'out'; it has: source, paths, out, lenient"),
    "a dict in place of a frame": ("cl.import_odds('csv', ODDS, 'out')", SourceError,
        "a dictionary is no frame: give polars.DataFrame(...) of it, or the paths of files"),
    "a frame for a source of files": ("cl.import_odds('betfair', pl.DataFrame(ODDS), 'out')", SourceError,
        "'betfair' reads files, not frames; a frame is read by csv, football-data, parquet"),
    "a frame without a name": ("cl.Lab().import_odds('csv', pl.DataFrame(ODDS))", PackFormatError,
        "a frame has no name that its pack could have: name it, as pack_id='mine'"),
    "times in an index without a name": (
        "cl.import_odds('csv', pd.DataFrame(ODDS, index=pd.to_datetime(ODDS['time'])), 'out')", SourceError,
        "the frame's index has times and no name: write frame.rename_axis('time') to read them as a column"),
    "fixtures that became fractions": (
        "cl.import_odds('csv', pl.DataFrame(ODDS | {'fixture': [1.0, 1.0]}), 'out')", SourceError,
        "frame: column 'fixture' is double and can't be the fixture, which has to be text or whole numbers"),
    "timezone for time_zone": ("odds(here, {'timezone': 'UTC'})", ArgumentError,
        "import_odds has no argument 'timezone': did you mean 'time_zone'? It has: lenient, margin,"),
    "a city for its zone": ("odds(here, {'time_zone': 'London'})", SourceError,
        "unknown time zone 'London': use an IANA name as in 'Europe/London'; did you mean 'Europe/London'?"),
    "times without a zone": ("odds(here, time=['2026-03-01T12:00'] * 2)", SourceError,
        "other.csv:2: '2026-03-01T12:00' has no time zone: name the zone of such times, as time_zone='Europe/London'"),
    "a frame's times without a zone": (
        "cl.import_odds('parquet', pl.DataFrame(ODDS | {'time': [pd.Timestamp('2026-03-01 12:00')] * 2}), 'out')",
        SourceError, "has no time zone: name the zone of such times, as time_zone='Europe/London'"),
    "times of a country": ("odds(here, time=['01/03/2026 12:00'] * 2)", SourceError,
        "'01/03/2026 12:00' is not an ISO 8601 time, such as 2026-03-01T12:00:00+00:00"),
    "American odds": ("odds(here, odds=[-110, 120])", SourceError,
        ": if the column is american, say odds_format='american'"),
    "fractional odds": ("odds(here, odds=['11/10', '5/6'])", SourceError,
        ": if the column is fractional, say odds_format='fractional'"),
    "probabilities": ("odds(here, odds=[0.5, 0.5])", SourceError,
        ": if the column is probability, say odds_format='probability'"),
    "a comma for a point": ("odds(here, odds=['2,10', '1,80'])", SourceError,
        "home '2,10' as decimal odds is no price, or not one of 1.001 to 100,000 as decimal odds; write it with a point"),
    "words for odds": ("odds(here, odds=['evens', 'SP'])", SourceError, "home 'evens' as decimal odds is no price"),
    "a format that is none": ("odds(here, {'odds_format': 'decimals'})", OddsError,
        "unknown odds format 'decimals': use one of decimal, american, fractional, probability: did you mean 'decimal'?"),
    "a margin's case": ("odds(here, {'margin': 'Shin'})", OddsError, ": did you mean 'shin'?"),
    "a column that is missing": ("odds(here, time=None)", SourceError,
        "no mapping of columns: columns must say which is time"),
    "columns with capitals": ("odds(here, **dict.fromkeys(ODDS), **{k.title(): v for k, v in ODDS.items()})", SourceError,
        "mapping={'columns': {'fixture': 'Fixture', 'time': 'Time', 'side': 'Side', 'odds': 'Odds'}}"),
    "a mapping one level too high": ("odds(here, {'mapping': {'time': 'when'}}, time=None)", SourceError,
        "'time' stands one level too high: write {'columns': {'time': 'when'}}"),
    "a mapping the other way": ("odds(here, {'mapping': {'columns': {'when': 'time'}}})", SourceError,
        "'when' is no meaning; it has: fixture, time, odds, side,"),
    "a mapping of no column": ("odds(here, {'mapping': {'columns': {'odds': 'ods'}}})", SourceError,
        "the mapping names 'ods', which is not one of the columns 'fixture', 'time', 'market', 'side', 'odds': did you mean "
        "'odds'?"),
    "a number of books in quotes": ("odds(here, {'min_books': '2'})", OddsError,
        "min_books must be a whole number of at least 1, not '2'"),
    "a list of weights": ("odds(here, {'weights': ['pinnacle']})", OddsError,
        "weights is a mapping from books to whole numbers, such as {'pinnacle': 2}, not ['pinnacle']"),
    "one closing source": ("odds(here, {'closing': 'pinnacle'})", OddsError,
        "closing is a list of sources, such as ['pinnacle', 'average'], not 'pinnacle'"),
}  # fmt: skip


@few(40)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_what_to_do(mistake, here, bt):
    written, kind, said = MISTAKES[mistake]

    with pytest.raises(kind, match=re.escape(said)):
        eval(written, globals() | {"here": here, "bt": bt})
