"""``clvlab arena``: play an agent through a seat, here or at a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, cast

import typer

from clvlab.base.files import new_file, written_file
from clvlab.base.invocation import command
from clvlab.cli.groups import Commands
from clvlab.cli.options import HORIZON_S, FixturesOption, JsonOption, MarketsOption, goes_with
from clvlab.cli.output import out, plain, print_json, say
from clvlab.cli.progress import interruptible
from clvlab.errors import ArgumentError, MissingExtraError
from clvlab.words import counted, mean_clv, seat_power, with_interval
from clvlab.words import seats as seats_in_words

if TYPE_CHECKING:  # imported where a command calls it, so that help and completion load no Polars
    from pydantic import BaseModel

    from clvlab.api.answer import JsonObject
    from clvlab.api.seat_competitions import SeatCompetitionInfo, SeatCompetitionListResponse
    from clvlab.api.seats import SeatAnswer, SeatInfo, SeatStart, SeatTick

    _Lists = tuple[Callable[[str], SeatCompetitionInfo], Callable[[str | None, int], SeatCompetitionListResponse]]

arena_app = typer.Typer(cls=Commands, help="Seats: agents that answer past prices one by one.", no_args_is_help=True)
_OWNER = "local"
_LIVE_WAIT_S = 25
_Model = TypeVar("_Model", bound="BaseModel")


@arena_app.callback()
def seats() -> None:
    """Seats: agents that answer past prices one by one."""


@dataclass(frozen=True, slots=True)
class _Arena:
    """Where a seat is: at a service, or in a store of this machine."""

    take: Callable[[JsonObject], SeatStart]
    act: Callable[[str, int, Sequence[JsonObject]], SeatAnswer]
    bundle: Callable[[str], bytes]  # of a run, once it is sealed
    seat: Callable[[str, int], SeatInfo]  # its open tick, waited for so many seconds


@arena_app.command("play")
def arena_play(
    agent: Annotated[str, typer.Argument(help="A TickAgent as file.py:name; its code runs here.", metavar="AGENT")],
    pack: Annotated[str | None, typer.Option(help="Pack id in the catalog, of the service with --url.")] = None,
    competition: Annotated[str | None, typer.Option(help="Id of a competition of seats; its rules apply.")] = None,
    url: Annotated[str | None, typer.Option(help="URL of a service; without it the seat is in a store here.")] = None,
    token: Annotated[str | None, typer.Option(help="Token of an owner at the service.", envvar="CLVLAB_TOKEN")] = None,
    store: Annotated[Path | None, typer.Option(help="SQLite file of the store here; in memory by default.")] = None,
    blind: Annotated[
        Literal["open", "aliased", "held-back", "live"] | None,
        typer.Option(
            help="open hides nothing (default); aliased hides names and dates; held-back too, over a held-back pack; "
            "live follows a match on the feed of the service."
        ),
    ] = None,
    fixture: FixturesOption = None,
    market: MarketsOption = None,
    horizon_s: Annotated[
        int | None,
        typer.Option(help=f"Seconds; decisions closer than this to the close have no score; {HORIZON_S} by default."),
    ] = None,
    bundle: Annotated[Path | None, typer.Option("--out", help="File of the bundle; RUN_ID.clv by default.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Play an agent through a seat: it gets each tick after its answer to the last one, and the run is sealed."""
    from clvlab.agents.seat import play, tick_agent_in

    goes_with("a store of this machine, without --url", url is None, store=store)
    own = tick_agent_in(agent)
    if blind == "held-back" and fixture:
        raise typer.BadParameter("--fixture goes with open and aliased seats: a held-back one is dealt a fixture")
    rules = {
        "pack_id": pack,
        "fixture_ids": fixture,
        "blind": blind,
        "market_allowlist": market,
        "min_clv_horizon_s": horizon_s,
    }
    if blind == "live" and (url is None or pack or competition):
        raise ArgumentError("a live seat follows the feed of a service: name its --url, and neither --pack nor --competition")
    if competition is None and pack is None and blind != "live":
        raise ArgumentError("a seat is over --pack, or in a --competition, which has one: name one of them")
    defaults = {} if blind in ("held-back", "live") else {"fixture_ids": "all", "blind": "open"}
    request: JsonObject = {"agent_id": own.identity.agent_id}
    request |= defaults if competition is None else {"competition_id": competition}
    request |= {name: value for name, value in rules.items() if value not in (None, [])}
    seat_id = ""
    with (
        interruptible(lambda: f"seat {seat_id} stays open, and is abandoned later" if seat_id else "no seat was taken"),
        written_file(bundle) if bundle else nullcontext() as file,  # a place that can't be written costs no seat
        _service(url, token) if url else _here(store) as arena,
    ):
        start = arena.take(request)
        seat_id = start["seat_id"]
        wait = partial(_live_tick, arena, seat_id) if blind == "live" else None
        last = play(own, start, partial(arena.act, seat_id), wait)
        written, content = bundle or Path(f"{start['run_id']}.clv"), arena.bundle(start["run_id"])
        new_file(written, content) if file is None else file.write(content)
        pack = pack or arena.seat(seat_id, 0)["pack_id"]
    ticks = last["answered"]["tick"]
    if as_json:
        print_json({"seat_id": seat_id, "run_id": start["run_id"], "ticks": ticks, "bundle": str(written)})
        return
    out.print(f"{counted(ticks, 'tick')} answered in seat {plain(seat_id)}, sealed as {plain(start['run_id'])}")
    out.print(f"Wrote {plain(str(written))}")
    with_pack = () if blind in ("held-back", "live") else ("--pack", pack)
    out.print(f"Next: {plain(command('verify', written, *with_pack))}")


def _live_tick(arena: _Arena, seat_id: str) -> SeatTick | None:
    """Wait for the open tick of a live seat; ``None`` once the seat is over."""
    while (found := arena.seat(seat_id, _LIVE_WAIT_S))["next"] is None and found["status"] == "playing":
        pass
    return found["next"]


@arena_app.command("competitions")
def arena_competitions(
    competition: Annotated[str | None, typer.Argument(help="Id of a competition, to see its entrants.", metavar="ID")] = None,
    url: Annotated[str | None, typer.Option(help="URL of a service; without it they are in a store here.")] = None,
    store: Annotated[Path | None, typer.Option(help="SQLite file of the store here.")] = None,
    cursor: Annotated[str | None, typer.Option(help="Cursor of the next page, from the end of the page before.")] = None,
    limit: Annotated[int, typer.Option(help="Competitions per page.", min=1, max=200)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List competitions of seats, newest first, or the entrants of one by rank."""
    if (url is None) == (store is None):
        raise ArgumentError("competitions of seats are at a --url, or in a --store: name one of them")
    with _competitions(url, store) as (one, some):
        if competition is None:
            listed = some(cursor, limit)
            print_json(listed) if as_json else _print_list(listed)
        else:
            found = one(competition)
            print_json(found) if as_json else _print_standing(found)


@contextmanager
def _competitions(url: str | None, store: Path | None) -> Iterator[_Lists]:
    if url is not None:
        from clvlab.client.client import Client

        with Client(url) as client:
            yield client.seat_competition, client.seat_competitions
        return
    from clvlab.arena.application import Application
    from clvlab.store.url import require_there

    place = _url_of(cast("Path", store))
    require_there(place)
    application = Application(place)
    try:
        yield application.seat_competitions.get, application.seat_competitions.page
    finally:
        application.close()


def _print_list(listed: SeatCompetitionListResponse) -> None:
    for one in listed["competitions"]:
        where = f"{one['status']}, {one['blind']}, over {one['pack_id']}"
        say(f"{one['competition_id']}  {one['name']}")
        say(f"  {where}; {counted(one['entrants'], 'entrant')}; seats: {seats_in_words(**one['seats'])}")
    if not listed["competitions"]:
        out.print("There is no competition of seats.")
    if listed["next_cursor"]:
        out.print(f"Next: --cursor {plain(listed['next_cursor'])}")


def _print_standing(found: SeatCompetitionInfo) -> None:
    say(f"{found['name']}: {found['status']}, {found['blind']}, over {found['pack_id']}")
    for one in found["standing"]:
        mean = with_interval(mean_clv(one["mean_clv_bps"]), one["low"], one["high"]) if one["decisions"] else "no result yet"
        place = f"{one['rank']}." if one["rank"] else "-"
        say(f"{place} {one['agent_id']} of {one['owner']}: {mean}, {counted(one['fixtures'], 'fixture')}")
        say(f"   seats: {seats_in_words(**one['seats'])}")
    say(seat_power(**found["power"]))


@contextmanager
def _service(url: str, token: str | None) -> Iterator[_Arena]:
    from clvlab.client.client import Client

    with Client(url, token) as client:

        def bundle(run_id: str) -> bytes:
            for _ in client.follow(run_id):
                pass
            return client.bundle(run_id)

        yield _Arena(lambda request: client.take_seat(**request), client.act, bundle, client.seat)


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
        yield _Arena(
            lambda request: seats.take(_OWNER, _valid(SeatRequest, request)),
            act,
            bundle,
            lambda seat_id, _: seats.seat(_OWNER, seat_id),
        )
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
