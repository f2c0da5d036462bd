"""``clvlab arena``: play an agent through a seat, here or at a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from clvlab.base.files import new_file
from clvlab.base.invocation import command
from clvlab.cli.options import HORIZON_S, FixturesOption, HorizonOption, JsonOption, MarketsOption, goes_with
from clvlab.cli.output import out, plain, print_json
from clvlab.cli.progress import interruptible
from clvlab.errors import ArgumentError, MissingExtraError
from clvlab.words import counted

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from pydantic import BaseModel

    from clvlab.api.answer import JsonObject
    from clvlab.api.seats import SeatAnswer, SeatStart

arena_app = typer.Typer(help="Seats: agents that answer past prices tick by tick.", no_args_is_help=True)
_OWNER = "local"
_Model = TypeVar("_Model", bound="BaseModel")


@arena_app.callback()
def seats() -> None:
    """Seats: agents that answer past prices tick by tick."""


@dataclass(frozen=True, slots=True)
class _Arena:
    """Where a seat is: at a service, or in a store of this machine."""

    take: Callable[[JsonObject], SeatStart]
    act: Callable[[str, int, Sequence[JsonObject]], SeatAnswer]
    bundle: Callable[[str], bytes]  # of a run, once it is sealed


@arena_app.command("play")
def arena_play(
    agent: Annotated[str, typer.Argument(help="A TickAgent as file.py:name; its code runs here.", metavar="AGENT")],
    pack: Annotated[str, typer.Option(help="Pack id in the catalog, of the service with --url.")],
    url: Annotated[str | None, typer.Option(help="URL of a service; without it the seat is in a store here.")] = None,
    token: Annotated[str | None, typer.Option(help="Token of an owner at the service.", envvar="CLVLAB_TOKEN")] = None,
    store: Annotated[Path | None, typer.Option(help="SQLite file of the store here; in memory by default.")] = None,
    blind: Annotated[Literal["open", "aliased"], typer.Option(help="open hides nothing, aliased names and dates.")] = "open",
    fixture: FixturesOption = None,
    market: MarketsOption = None,
    horizon_s: HorizonOption = HORIZON_S,
    bundle: Annotated[Path | None, typer.Option("--out", help="File of the bundle; RUN_ID.clv by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play an agent through a seat: it gets each tick after its answer to the last one, and the run is sealed."""
    from clvlab.agents.seat import play, tick_agent_in

    goes_with("a store of this machine, without --url", url is None, store=store)
    own = tick_agent_in(agent)
    request: JsonObject = {"agent_id": own.identity.agent_id, "pack_id": pack, "fixture_ids": fixture or "all"}
    request |= {"blind": blind, "market_allowlist": market or [""], "min_clv_horizon_s": horizon_s}
    seat_id = ""
    with (
        interruptible(lambda: f"seat {seat_id} stays open, and is abandoned later" if seat_id else "no seat was taken"),
        _service(url, token) if url else _here(store) as arena,
    ):
        start = arena.take(request)
        seat_id = start["seat_id"]
        last = play(own, start, partial(arena.act, seat_id))
        written = bundle or Path(f"{start['run_id']}.clv")
        new_file(written, arena.bundle(start["run_id"]))
    ticks = last["answered"]["tick"]
    if as_json:
        print_json({"seat_id": seat_id, "run_id": start["run_id"], "ticks": ticks, "bundle": str(written)})
        return
    out.print(f"{counted(ticks, 'tick')} answered in seat {plain(seat_id)}, sealed as {plain(start['run_id'])}")
    out.print(f"Wrote {plain(str(written))}")
    out.print(f"Next: {plain(command('verify', written, '--pack', pack))}")


@contextmanager
def _service(url: str, token: str | None) -> Iterator[_Arena]:
    from clvlab.client.client import Client

    with Client(url, token) as client:

        def bundle(run_id: str) -> bytes:
            for _ in client.follow(run_id):
                pass
            return client.bundle(run_id)

        yield _Arena(lambda request: client.take_seat(**request), client.act, bundle)


def _valid(kind: type[_Model], value: JsonObject) -> _Model:
    from pydantic import ValidationError

    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ArgumentError(f"{where}: {first['msg']}, not {first['input']!r:.80}") from error


def _url_of(store: Path) -> str:
    from urllib.parse import quote

    return f"sqlite:///{quote(str(store))}"


@contextmanager
def _here(store: Path | None) -> Iterator[_Arena]:
    from clvlab.arena.application import Application
    from clvlab.arena.seats.requests import SeatAction, SeatRequest

    application = Application(None if store is None else _url_of(store))
    seats = application.seats

    def act(seat_id: str, tick: int, decisions: Sequence[JsonObject]) -> SeatAnswer:
        return seats.act(_OWNER, seat_id, _valid(SeatAction, {"tick": tick, "decisions": decisions}))

    def bundle(run_id: str) -> bytes:
        application.jobs.require_sealed(run_id)
        return application.runs.bundle(run_id)

    try:
        yield _Arena(lambda request: seats.take(_OWNER, _valid(SeatRequest, request)), act, bundle)
    finally:
        application.close()


def mcp(
    store: Annotated[Path | None, typer.Option(help="SQLite file of the store; in memory by default.")] = None,
) -> None:
    """Serve the tools of the arena and the laboratory to an agent on this machine, over standard input and output."""
    try:
        from clvlab_service.mcp.stdio import serve
    except ModuleNotFoundError as error:
        raise MissingExtraError("arena", error.name) from error
    serve(_OWNER, None if store is None else _url_of(store))
