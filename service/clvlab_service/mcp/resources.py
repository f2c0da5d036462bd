"""Resources: what an answer has no room for, in pages of a bounded size."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from clvlab.api.answer import JsonObject
from clvlab.arena.reports import report_of
from clvlab.base.cache import BoundedCache
from clvlab.errors import UnknownRunError
from clvlab.report.tearsheet import tear_sheet_page
from clvlab_service.mcp.tools import Desk, all_packs, competition_standing, verdict_of

PAGE_CHARACTERS = 16_000
PAGE_BYTES = 12_000
_KEPT_BYTES = 16 << 20
_ADDRESS = re.compile(
    r"clv://(?:(?P<packs>packs)|competitions/(?P<competition>[\w-]{1,200})|seats/(?P<seat>[\w-]{1,200})(?P<result>/result)?|runs/(?P<run>[\w-]{1,200})/(?P<part>report|tear-sheet|bundle))"
    r"(?:/(?P<page>[1-9]\d{0,5}))?"
)
TEMPLATES: Mapping[str, str] = {
    "clv://packs{/page}": "All packs",
    "clv://competitions/{competition_id}{/page}": "The whole standing of a competition",
    "clv://seats/{seat}{/page}": "A seat with its open tick, whole",
    "clv://seats/{seat}/result": "What a seat came to, with its chain opened; waits for the seal",
    "clv://runs/{run_id}/report{/page}": "All figures of a run",
    "clv://runs/{run_id}/tear-sheet{/page}": "Its tear sheet, a page of HTML",
    "clv://runs/{run_id}/bundle{/page}": "Its proof bundle, a file to verify",
}


class UnknownResourceError(UnknownRunError):
    """There is no resource, or page of one, at an address."""


@dataclass(frozen=True, slots=True)
class ResourcePage:
    """A page of a resource, with the digest of the whole and the number of its pages."""

    content: str | bytes
    media_type: str
    sha256: str
    pages: int


@dataclass(frozen=True, slots=True)
class _Whole:
    content: str | bytes
    media_type: str


class Resources:
    """Reads resources for callers; what is sealed never changes, so a few are kept in memory until all pages are read."""

    def __init__(self) -> None:
        self._kept: BoundedCache[_Whole] = BoundedCache(_KEPT_BYTES, lambda whole: len(whole.content))

    async def read(self, desk: Desk, uri: str) -> ResourcePage:
        """Return a page of a resource.

        Raises
        ------
        UnknownResourceError
            There is no such resource or page.
        ClvlabError
            The seat or the run is not the caller's to read, or is not sealed.
        """
        named = _ADDRESS.fullmatch(uri)
        if named is None:
            raise UnknownResourceError(f"no resource {uri!r:.200}; there are: {', '.join(TEMPLATES)}")
        whole = await desk.work(*self._reading(desk, named.groupdict()))
        return _page(whole, int(named["page"] or 1), uri)

    def _reading(self, desk: Desk, named: Mapping[str, Any]) -> tuple[str, Callable[[], _Whole]]:
        if named["packs"]:
            return "", lambda: _json(all_packs(desk))
        if named["competition"]:
            return "", lambda: _json(competition_standing(desk, named["competition"]))
        if named["result"]:
            return "results", lambda: self._result(desk, named["seat"])
        if named["seat"]:
            return "", lambda: _seat(desk, named["seat"])
        pool = {"report": "sheets", "tear-sheet": "sheets", "bundle": "proofs"}[named["part"]]
        return pool, lambda: self._of_run(desk, named["run"], named["part"])

    def _of_run(self, desk: Desk, run_id: str, part: str) -> _Whole:
        done = desk.laboratory.run(desk.caller, run_id)  # refused here, if it is not the caller's to read
        make: Mapping[str, Callable[[], _Whole]] = {
            "report": lambda: _json(report_of(done)),
            "tear-sheet": lambda: _Whole(tear_sheet_page(done), "text/html"),
            "bundle": lambda: _Whole(desk.laboratory.bundle(desk.caller, run_id), "application/zip"),
        }
        return self._kept.get((run_id, part), make[part])

    def _result(self, desk: Desk, seat: str) -> _Whole:
        found = desk.application.seats.seat(desk.seat_owner, seat)
        if found["status"] == "finished":
            desk.application.jobs.require_sealed(found["run_id"])
            found = desk.application.seats.seat(desk.seat_owner, seat)
        if found["status"] != "sealed":
            raise UnknownResourceError(f"seat {seat} is {found['status']}: it has a result once its last tick is answered")
        opened = {name: found[name] for name in ("agent_id", "answered", "head", "secret", "blind_commitment", "fixture_ids")}
        run_id = found["run_id"]
        if found["blind"] == "live":  # no catalog has its pack, which intervals and tear sheets need
            metrics = desk.application.runs.verify(run_id, record=False)["metrics"]
            verdict: JsonObject = {"run_id": run_id}
            if metrics is not None:
                verdict |= {"decisions": metrics["action_count"], "mean_clv_bps": metrics["avg_clv_bps"]}
        else:
            verdict = {**verdict_of(desk.laboratory.run(desk.caller, run_id))}
        checks = desk.laboratory.verify(desk.caller, run_id)
        return _json({"seat": seat, **opened, **verdict, "checks": checks.checks})


def _seat(desk: Desk, seat: str) -> _Whole:
    found = desk.application.seats.seat(desk.seat_owner, seat)
    opened = found["next"]
    tick = {} if opened is None else {**opened["view"], "salt": opened["salt"]}
    return _json({"seat": seat, "done": opened is None, "status": found["status"], "head": found["head"], **tick})


def _json(value: object) -> _Whole:
    return _Whole(orjson.dumps(value).decode(), "application/json")


def _page(whole: _Whole, number: int, uri: str) -> ResourcePage:
    size = PAGE_CHARACTERS if isinstance(whole.content, str) else PAGE_BYTES
    pages = max(1, -(-len(whole.content) // size))
    if number > pages:
        raise UnknownResourceError(f"{uri!r:.200} has {pages} pages")
    content = whole.content[(number - 1) * size : number * size]
    data = whole.content if isinstance(whole.content, bytes) else whole.content.encode()
    return ResourcePage(content, whole.media_type, "sha256:" + hashlib.sha256(data).hexdigest(), pages)
