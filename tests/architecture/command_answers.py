"""What every command prints and with which code it ends: once good, and once for each other code that it has.

Servers, and what listens to a provider, are met by their help and by what they refuse: they do not end by themselves.
"""

import json
import os
import shlex
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any
from unittest.mock import patch

import typer

from clvlab.arena.log.witness_server import WitnessServer
from clvlab.log.note import Verifier, read_signer
from clvlab.log.witness import Witness
from clvlab.packs.synthetic import Recipe, build
from tests.architecture.faces import DISTRIBUTION_VERSION, Extra, commands
from tests.architecture.http_answers import ALICE, BACKTEST, FILES, LOG_KEY, ODDS, TABLE, TIME_MS, served
from tests.architecture.outlines import Placeholders, outline
from tests.chains import local_chain
from tests.commands import ROOT, clvlab, typed
from tests.packs.remote.buckets import bucket

LOG = "log.example+b252d0cf+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"
NEW_LOG_KEY = "PRIVATE+KEY+log.example/2+cff5d1c4+AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAh\n"
WITNESS_KEY = "PRIVATE+KEY+witness.example+40e5303d+BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\n"
BETS = """\
placed_at,match,market,pick,odds,stake
2026-01-02T09:00Z,Birch North - Glen North,1X2,home,+110,£10
2026-01-02T09:00Z,Birch North - Glen North,1X2,X,3.5,£5
2026-01-02T09:00Z,Nobody - Nowhere,1X2,home,2.0,£5
"""
PLAYER = """\
import clvlab


class Player(clvlab.TickAgent):
    def on_tick(self, book):
        return book.back(book.sides()[0]) if book.tick_seq == 20 else None
"""
FIXTURE = ("--fixture", "90000000")
_DAY_MS = 86_400_000
NO_DATABASE = {"CLVLAB_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
ENDLESS = ("capture", "devchain", "devfeed", "live", "log stamp", "mcp", "prove", "service serve", "service worker")
"""Commands that do not end by themselves, or ask a provider or an authority: their help stands for what they do."""

_MEMBERS = FILES | {"written": "time", "when": "time"} | dict.fromkeys(("versions", "libraries", "judged_by", "by"), "version")
_JUDGE = ("clvlab", "source_digest", "polars", "numpy", "msgspec", "orjson")
_PATTERNS = {
    r"eyJ[\w-]+\.[\w-]+\.[\w-]+": "<token>",
    r"seat_[0-9a-f]{32}": "<seat>",
    r"(?<=sealed as )run_[0-9a-f]{32}": "<run>",
    r"(?<=List of fixtures: )sha256:\w{64}": "<hash of a salted list>",
    r"other\.example\+[0-9a-f]{8}\+\S{44}": "<random public key>",
    r"(?<=judged by            ).*": "<versions>",
    r"\d{4}-\d\d-\d\d \d\d:\d\d(?= {2,}\w|$)": "<local time>",
    r"(?<=parquet of 'mine': expected )sha256:\w{64}, found sha256:\w{64}": "<hash of a file>, found <hash of a file>",
    r"(?<=127\.0\.0\.1:)\d{2,}": "<port>",
    r"(?<=Wrote )[0-9,]+(?= bytes to copy.db)": "<size>",
}


@dataclass
class Shell:
    """A folder in which commands are called, and what each of them said."""

    folder: Path
    placeholders: Placeholders
    said: list[str] = field(default_factory=list)
    codes: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def call(
        self,
        line: str,
        *,
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        members: Mapping[str, str] | None = None,
    ) -> str:
        """Call a command, write down what came of it, and return what it printed."""
        words = shlex.split(line)
        with patch.dict(os.environ, environment or {}):
            ended, out, err = clvlab(self.folder, *words, stdin=stdin)
        for size in (1, 2):  # as "log show"
            self.codes[" ".join(words[:size])].add(ended)
        placeholders = replace(self.placeholders, members=members or self.placeholders.members)
        given = f" (with {', '.join(environment)})" if environment else ""
        self.said.append(
            "\n".join(
                [
                    placeholders.of_text(f"$ clvlab {line}{given}"),
                    *outline(out.encode(), placeholders),
                    *(f"! {one}" for one in outline(err.encode(), placeholders)),
                    f"exit {ended}",
                    "",
                ]
            )
        )
        return out


def _leaves(command: Any, path: str = "") -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
        return
    for name, one in inner.items():
        yield from _leaves(one, f"{path} {name}".strip())


def said(folder: Path) -> str:
    """Return what all commands say, one after the other in a folder.

    Raises
    ------
    AssertionError
        A command was never met at its best, or never refused anything.
    """
    placeholders = Placeholders(
        {str(folder): "<folder>", str(ROOT): "<clone>", typed(folder): "clvlab", sys.executable: "<python>"},
        _MEMBERS,
        _PATTERNS,
    )
    shell = Shell(folder, placeholders)
    try:
        with _time_stands_still(TIME_MS):
            _installed(shell)
            _of_packs(shell)
            _of_runs(shell)
            _of_proofs(shell)
            _of_logs(shell)
            _of_places(shell)
            _endless(shell)
        _of_stores(shell)
    except Exception as error:
        error.add_note(f"the last command that ended:\n{shell.said[-1]}")
        raise
    for name in _leaves(typer.main.get_command(commands)):
        codes = shell.codes[name]
        assert 0 in codes, f"clvlab {name} was never met at its best: call it in {Path(__file__).name}"
        assert codes & {1, 2} or name in ("doctor", "version"), f"clvlab {name} never refused: call it in {Path(__file__).name}"
    return "\n".join(shell.said)


@contextmanager
def _time_stands_still(at_ms: int) -> Iterator[None]:
    with patch.multiple("time", time_ns=lambda: at_ms * 1_000_000, time=lambda: at_ms / 1000):
        yield


def _installed(shell: Shell) -> None:
    shell.call("version --json", members=dict.fromkeys(_JUDGE, "version"))
    shell.call("version --colour")
    for words in ("", " CLV", " CLV --json", " clvs"):
        shell.call(f"explain{words}")
    with patch.object(Extra, "missing", []), patch(DISTRIBUTION_VERSION, return_value="1"):  # whatever is here
        shell.call("doctor --json")
    shell.call("doctor --colour")
    shell.call("agents list --json")
    shell.call("agents list --colour")
    shell.call("agents show cumulative-drift --json")
    shell.call("agents show cumulative-drift")
    shell.call("agents show cumulative-drifts")
    shell.call("nothing")


def _of_packs(shell: Shell) -> None:
    call, folder = shell.call, shell.folder
    (folder / "odds.csv").write_bytes(ODDS)
    call("packs build --out mine --seed 5 --fixtures 2 --messages 40")
    call("packs build --out mine")
    call("packs list --json")
    call("packs list somewhere")
    call("packs show mine --json")
    call("packs show mine")
    call("packs show nothing")
    call("packs verify mine --json")
    call("packs verify nothing")
    call("packs verify mine --log log.db")
    call("packs export mine ticks.csv")
    call("packs export mine ticks.csv")
    call("packs import csv odds.csv --out odds --column book=bookmaker")
    call("packs import csv gone.csv --out other")
    call("packs import csv odds.csv --out other --margin magic")
    (folder / "catalog").mkdir()
    shutil.copytree(folder / "mine", folder / "catalog" / "mine")
    call("packs admit mine --catalog catalog")
    call("packs admit other --catalog catalog")
    ticks = folder / "mine" / "ticks.parquet"
    ticks.write_bytes(ticks.read_bytes()[:-1])
    call("packs verify mine --json")
    call("packs verify mine")
    call("packs push starter somewhere")
    call("packs pull somewhere --out other")


def _of_runs(shell: Shell) -> None:
    call, folder = shell.call, shell.folder
    (folder / "bets.csv").write_text(BETS)
    call("runs")
    for agent in ("baseline", "cumulative-drift"):
        made = json.loads(call(f"backtest starter --agent {agent} --json"))
        first = folder / made["run_folder"]
    call("backtest starter --agent cumulative-drift --param cooldown_s=3600 --policy max_orders=2 --market 1X2 --horizon-s 600")
    call("backtest starter --agent nobody")
    call("backtest starter --fixture 5")
    call("backtest starter --end-rule never")
    call("backtest")
    call("runs --json")
    call("runs --verify --json")
    call("runs --colour")
    call(f"show {first.name} --json")
    call(f"show {first.name} --decisions 2")
    call(f"show {first.name} --seq 1")
    call("show nowhere")
    call(f"verify {first.name} --json --second-opinion --replay")
    call(f"verify {first.name}")
    call("verify nowhere")
    call(f"verify {first.name} --require love")
    call(f"report {first.name} --json")
    call(f"report {first.name}")
    call(f"report {first.name} --stake 25 --commission betfair")
    call(f"report {first.name} --commission betfair")
    call("report nowhere")
    call(f"share {first.name} --out card.svg --page https://example.org/runs/{first.name}")
    call(f"share {first.name} --out card.svg --json")
    call(f"share {first.name} --out card.gif")
    call("compare --pack starter baseline cumulative-drift --json")
    call("compare nowhere")
    call(f"sweep starter --grid warmup_ticks=5,10 {' '.join(FIXTURE)} --json")
    call("sweep starter --grid colour=1")
    call("bets grade bets.csv --pack starter --json")
    call("bets grade bets.csv --pack starter --column tim=placed_at")
    (folder / "player.py").write_text(PLAYER)
    call(f"arena play player.py:Player --pack starter {' '.join(FIXTURE)} --out seat.clv --store seats.db")
    call("arena play player.py:Nobody --pack starter")
    call("arena play player.py:Player")
    call("arena competitions --store seats.db")
    call("arena competitions GONE --store seats.db")
    build(Recipe(seed=3, fixtures=1, messages=20), folder / "vault")
    for _ in range(2):
        call("service hold-back vault --database-url sqlite:///held.db")
    for pack_id in ("vault", "starter"):
        call(f"service release {pack_id} --database-url sqlite:///held.db")
    call("demo --json")
    call("demo --colour")
    broken = folder / "broken" / first.name
    shutil.copytree(first, broken)
    scores = (broken / "scores.jsonl").read_bytes().splitlines(keepends=True)
    (broken / "scores.jsonl").write_bytes(b"".join(scores[1:]))
    call("runs --runs broken --verify --json")
    call(f"show broken/{first.name} --json")
    call(f"verify broken/{first.name} --json")


def _of_proofs(shell: Shell) -> None:
    call = shell.call
    made = json.loads(call(f"backtest starter {' '.join(FIXTURE)} --log log.db --owner did:x:me --json"))["run_folder"]
    unlogged = json.loads(call(f"backtest starter {' '.join(FIXTURE)} --horizon-s 30 --json"))["run_folder"]
    call(f"bundle {unlogged} --out alone.clv --json")
    call(f"bundle {unlogged} --out alone.clv")
    call(f"bundle {made} --out logged.clv")
    (shell.folder / "log.key").write_text(LOG_KEY)
    call(f"bundle {made} --out logged.clv --log log.db --log-key log.key")
    (shell.folder / "keys.json").write_text(json.dumps({"logs": [LOG]}))
    call("verify logged.clv --trust keys.json --require log --without-witness --json")
    call("verify logged.clv --trust keys.json --require log")
    (shell.folder / "one.json").write_text(call(f"disclose {made} 1"))
    call(f"disclose {made} 99999")
    call("verify one.json --json")
    call("verifier")
    call("verifier --states")
    call("verifier --html")
    call("verifier --html --states")
    call(f"anchor {made} --json")
    call(f"push {made} somewhere")


def _of_places(shell: Shell) -> None:
    """Call commands that reach a bucket and a chain, both on loopback."""
    call, url = shell.call, "s3://tested/mine"
    with bucket() as made:
        there = made.variables | {"CLVLAB_CACHE": str(shell.folder / "cache")}
        call(f"packs push starter {url}/starter", environment=there)
        call(f"packs push odds {url}/starter", environment=there)
        call(f"packs list {url} --json", environment=there)
        call(f"packs pull {url}/starter --out pulled", environment=there)
        call(f"packs pull {url}/other --out other", environment=there)
        call(f"push alone.clv {url} --json", environment=there)
        call(f"push broken/{next((shell.folder / 'broken').iterdir()).name} {url}", environment=there)
    with local_chain(shell.folder) as chain:
        asked = chain.settings.model_dump(include={"rpc_url", "cluster", "genesis_hash", "keypair", "poll_s", "patience_s"})
        there = {f"CLVLAB_ANCHOR_{name.upper()}": str(value) for name, value in asked.items()}
        run = json.loads(call("runs --json"))[-1]["run_folder"]
        call(f"anchor {run} --json", environment=there)
        call(f"anchor {run}", environment=there)
        call(f"verify {run}", environment=there)


def _of_logs(shell: Shell) -> None:
    call, folder = shell.call, shell.folder
    (folder / "witness.key").write_text(WITNESS_KEY)
    (folder / "new.key").write_text(NEW_LOG_KEY)
    call("log keygen other.example --out other.key")
    call("log keygen other.example --out other.key")
    call("log show log.db --json")
    call("log show log.db")
    call("log show nowhere")
    (folder / "first.note").write_text(call("log checkpoint log.db --key log.key"))
    call("log checkpoint log.db --key nothing")
    request = call("log request log.db --checkpoint first.note")
    call("log request nowhere --checkpoint first.note")
    call(f"log witness --key witness.key --state seen.json --log {LOG}", stdin=request)
    call(f"log witness --key witness.key --state seen.json --log {LOG}")
    call(f"log audit log.db --key {LOG} --checkpoint first.note --bundle logged.clv --json")
    call("log audit log.db")
    call("log audit nowhere")
    _of_tiles(shell)
    shutil.copy(folder / "log.db", folder / "old.db")
    call(f"backtest starter {' '.join(FIXTURE)} --horizon-s 90 --log log.db --owner did:x:me")
    (folder / "second.note").write_text(call("log checkpoint log.db --key log.key"))
    call("log restart log.db --key new.key --checkpoint second.note")
    call("log restart old.db --key new.key --checkpoint second.note")
    call("log audit old.db --json")
    with closing(sqlite3.connect(folder / "log.db")) as connection, connection:
        again = "SELECT 4, kind, run_id, owner, 99, entry, content_hash FROM log_entries WHERE idx = 1"
        connection.execute(f"INSERT INTO log_entries {again}")
    call("log audit log.db --json")
    call("log audit log.db")


def _of_tiles(shell: Shell) -> None:
    call, folder = shell.call, shell.folder
    call("log export log.db --tiles tiles --key log.key --json")
    call("log export log.db --tiles tiles --key log.key")
    call("log export log.db --tiles noted --checkpoint first.note")
    call("log export log.db --tiles tiles")
    witness = Witness(read_signer(folder / "witness.key"), [Verifier.parse(LOG)], folder / "w.json")
    with WitnessServer(("127.0.0.1", 0), witness, lambda: 5) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        key = read_signer(folder / "witness.key").verifier
        (folder / "policy").write_text(f"log {LOG}\nwitness w {key} {server.url}\nquorum w\n")
        (folder / "cosigned.note").write_text(call("log cosign log.db --key log.key --policy policy"))
        server.shutdown()
    call("log cosign log.db --key log.key --policy nothing")
    call("log proof logged.clv --out proofs")
    call("log proof alone.clv --out nowhere")
    call("log check proofs/commit.tlog-proof --entry proofs/commit.entry --trust keys.json")
    call("log check proofs/commit.tlog-proof --entry proofs/outcome.entry --trust keys.json")
    call("log check proofs/commit.tlog-proof --entry proofs/commit.entry --trust policy")
    call(f"log witness --key witness.key --state seen.json --log {LOG} --serve nowhere")
    request = call("log request log.db --checkpoint first.note --old 2")
    call(f"log witness --key witness.key --state seen.json --log {LOG}", stdin=request)


def _endless(shell: Shell) -> None:
    call = shell.call
    for name in ENDLESS:
        call(f"{name} --help")
    call("capture radio --out match")
    call("devchain --port many")
    call("devfeed --feed betfair --fixture 1")
    call("devfeed --faults nonsense")
    call("live baseline")
    call("live baseline --feed radio")
    call("log stamp nowhere --tsa http://127.0.0.1:9 --out stamps.json")
    call("prove nowhere --pack starter")
    call("mcp --store nowhere/seats.db")
    call("service serve --keys mine")
    call("service serve", environment=NO_DATABASE)
    call("service worker")
    call("service worker", environment=NO_DATABASE)


def _of_stores(shell: Shell) -> None:
    """Call commands of an operator, with whose store a service was served."""
    call, folder = shell.call, shell.folder
    store = "sqlite:///store.db"
    with served(folder, database_url=f"sqlite:///{folder / 'store.db'}", uploads=folder / "uploads") as service:
        service.ask("runBacktest", json=BACKTEST)
        service.ask("uploadPack", ALICE, content=ODDS, params=TABLE)
    with _time_stands_still(TIME_MS + _DAY_MS):
        call(f"service rebuild-leaderboard --database-url {store}")
        with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
            connection.execute("UPDATE standings SET total_clv_bps = 999999")
        call(f"service rebuild-leaderboard --database-url {store}")
        call("service rebuild-leaderboard --database-url sqlite:///gone.db")
        call(f"service uploads --database-url {store} --uploads uploads --json", members=FILES | {"bytes": "size"})
        call(f"service uploads --database-url {store} --uploads gone")
        call(f"service admit-upload {ALICE} odds --database-url {store} --uploads uploads --catalog catalog")
        call(f"service admit-upload {ALICE} other --database-url {store} --uploads uploads --catalog catalog")
        call(f"service backup --database-url {store} --out copy.db")
        call(f"service backup --database-url {store} --out copy.db")
        call(f"service retention --days 0.5 --database-url {store}")
        call("service retention --days 0.5 --database-url sqlite:///gone.db")
        call("service dev-token --keys keys")
        call("service dev-token --lifetime-s 0")
