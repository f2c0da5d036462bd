"""Services that are killed while seats play: every seat goes on from its last decision, and none is lost, early or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import httpx2
from clvlab_service.dev import dev_token

from clvlab.api.answer import JsonObject
from clvlab.arena.application import Application
from clvlab.arena.log.audit import audit
from clvlab.log.bundles import Trust, judge
from clvlab.log.note import read_signer
from clvlab.log.seats import first_head, header, next_head, tick_digest
from clvlab.proof.bundle import read_bundle, run_of
from clvlab.proof.verify import verify
from clvlab.store import seats
from clvlab.store.database import Database
from tests.trials.places import FIXTURE, Service, services

_OWNER = "did:example:seats"
_REFUSED = 409
_PAUSE_S = 0.5
_TURN = 20  # answers by one service


@dataclass
class Played:
    """A seat as its player knows it: the heads that it computed, and how far it was shown the tape."""

    seat_id: str
    run_id: str
    heads: list[str]
    shown: int = 1
    broken: int = 0
    done: bool = False


@dataclass
class Player:
    """Plays one seat after the other, by any service that answers, and repeats each answer until it is taken.

    A live seat follows a match on the feed, whose ticks wait for answers as long as the service is down.
    """

    running: Sequence[Service]
    http: httpx2.Client
    number: int
    over: Event
    is_live: bool = False
    played: list[Played] = field(default_factory=list)
    asked: int = 0

    def play(self) -> None:
        """Play until it is over."""
        while not self.over.is_set():
            over = {"blind": "live"} if self.is_live else {"pack_id": "starter"}
            body = {"agent_id": f"player-{self.number}", "fixture_ids": [FIXTURE + self.number % 4], **over}
            start = self._ask("/arena/seats", body)
            if start is None:
                return
            own = Played(start["seat_id"], start["run_id"], [start["answered"]["head"]])
            self.played.append(own)
            tick = start["next"] or self._waited(own)
            while tick and (tick := self._answered(own, tick) or self._waited(own)):
                own.shown = tick["view"]["tick"]

    def _answered(self, own: Played, tick: JsonObject) -> JsonObject | None:
        view = tick["view"]
        said = {"action": "BACK", "side": view["sides"][view["tick"] % len(view["sides"])][0], "stake": view["tick"]}
        answer = self._ask(f"/arena/seats/{own.seat_id}/actions", {"tick": view["tick"], **said})
        if answer is None:
            return None
        recorded = [said | {"market": view["market"]}]
        own.heads.append(next_head(own.heads[-1], tick_digest(tick["salt"], view), recorded, missed=False))
        own.broken += answer["answered"]["head"] != own.heads[-1]
        own.done = answer["done"]
        following: JsonObject | None = answer["next"]
        return following

    def _waited(self, own: Played) -> JsonObject | None:
        """Wait for the next tick of a live seat; ``None`` once the seat is over."""
        while self.is_live and (found := self._ask(f"/arena/seats/{own.seat_id}?wait_s=2")) is not None:
            if found["next"] is not None or found["status"] not in ("playing", "finished"):
                own.done = found["status"] == "sealed"
                following: JsonObject | None = found["next"]
                return following
        return None

    def _ask(self, path: str, body: JsonObject | None = None) -> JsonObject | None:
        """Ask services in turn until one answers; ``None`` once it is over."""
        while not self.over.is_set():
            self.asked += 1
            service = self.running[(self.number + self.asked // _TURN) % len(self.running)]
            try:
                response = self.http.request("GET" if body is None else "POST", f"{service.url}{path}", json=body)
                if response.status_code == _REFUSED:
                    raise RuntimeError(f"{path}: {response.text}")
                found: JsonObject = response.raise_for_status().json()
            except httpx2.HTTPError:  # it was killed, or has not started yet
                self.over.wait(_PAUSE_S)
            else:
                return found
        return None


def trial(folder: Path, url: str, count: int, kills: int, players: int, live: int, seed: int) -> dict[str, int]:
    """Kill services so often while seats play, and count what was lost, shown early, doubled or forked; all must be nought.

    ``live`` of the players follow matches on a feed.
    """
    chance, over = random.Random(seed), Event()
    settings = {"CLVLAB_DATABASE_URL": url, "CLVLAB_SEAT_LOG_TICKS": "50", "CLVLAB_MAX_OWNER_SEATS": "10000"}
    settings |= {"CLVLAB_DEVFEED": "1", "CLVLAB_REPLAY_SPEED": "1e9", "CLVLAB_LIVE_FOLDER": str(folder / "live")}
    settings |= {"CLVLAB_SEAT_LIVE_S": "600", "CLVLAB_JOB_LEASE_S": "2", "CLVLAB_MAX_OWNER_LIVE": "100"}
    with services(folder, count, **settings, CLVLAB_CHECKPOINT_FILE=str(folder / "checkpoint")) as served:
        headers = {"Authorization": f"Bearer {dev_token(folder / 'keys', _OWNER, 86_000)}"}
        with (
            httpx2.Client(headers=headers, timeout=20, verify=False, limits=httpx2.Limits(max_connections=None)) as http,
            ThreadPoolExecutor(players) as threads,
        ):
            playing = [Player(served, http, number, over, number < live) for number in range(players)]
            tasks = [threads.submit(player.play) for player in playing]
            try:
                for _ in range(kills):
                    time.sleep(chance.uniform(0.2, 1.5))
                    killed = chance.choice(served)
                    killed.kill()
                    time.sleep(chance.uniform(0, 0.2))
                    killed.start()
            finally:
                over.set()
            for task in tasks:
                task.result()
    followed = [one for player in playing if player.is_live for one in player.played]
    live_counts = {"live seats": len(followed), "live ticks": sum(len(own.heads) - 1 for own in followed)}
    return {"kills": kills} | live_counts | _judged(folder, url, [one for player in playing for one in player.played])


def _judged(folder: Path, url: str, played: Sequence[Played]) -> dict[str, int]:
    trust = Trust(logs=[str(read_signer(folder / "log.key").verifier)])
    application, lost, early, sealed, unproved = Application(url, log_key=read_signer(folder / "log.key")), 0, 0, 0, 0
    application.start()
    note = application.log.checkpoint()
    try:
        for own in played:
            chain = _chain(url, own.seat_id)
            lost += chain[: len(own.heads)] != own.heads or own.broken > 0
            # The answer to the last tick may be on the disk although its player was not told so.
            early += own.shown > len(chain) or len(chain) > len(own.heads) + 1
            if own.done:
                application.jobs.require_sealed(own.run_id)
                sealed += application.runs.verify(own.run_id)["verified"]
                parts = read_bundle(application.runs.bundle(own.run_id))
                proved = judge(parts, verify(run_of(parts)), trust, ["seat", "log"], without_witness=True)
                unproved += {proved["seat"].verdict, proved["log"].verdict} != {"pass"}
    finally:
        application.close()
    done = sum(own.done for own in played)
    counts = {"seats": len(played), "ticks": sum(len(own.heads) - 1 for own in played), "sealed": sealed}
    faults = {"lost": lost, "early": early, "unsealed": done - sealed, "unproved": unproved}
    return counts | faults | {"forked": int(not audit(url, trust=trust, checkpoints={"a": note}).sound)}


def _chain(url: str, seat_id: str) -> list[str]:
    """Return the heads that the store has, the first one before any tick; each follows from the one before."""
    database = Database(url)
    with database.read() as connection:
        row, ticks = seats.row(connection, seat_id), seats.ticks(connection, seat_id)
    database.close()
    assert row is not None
    heads = [first_head(header(seat_id, row["agent_id"], row["run_id"], row["secret"])), *(tick["head"] for tick in ticks)]
    for tick, before, head in zip(ticks, heads[:-1], heads[1:], strict=True):
        assert next_head(before, tick["digest"], tick["decisions"], missed=tick["missed"]) == head
    assert [tick["tick"] for tick in ticks] == list(range(1, row["ticks"] + 1))
    assert heads[-1] == row["head"]
    return heads
