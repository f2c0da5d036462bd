"""Answers of tools: JSON within two kilobytes, with the address of the rest; and errors as a code, a sentence and a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired

import orjson
from pydantic import ValidationError
from typing_extensions import TypedDict

from clvlab import errors
from clvlab.api.answer import JsonObject
from clvlab_service.errors import STORE_DETAIL, problem_type

MOST_BYTES = 2_000
"""Bytes of an answer, with its text and its structure, which say the same."""
_ENVELOPE_BYTES = 200
_DETAIL_CHARACTERS = 400
_NAMED = 5
INVALID = "invalid-request"


class Fault(TypedDict):
    """What a tool refuses: a stable code, what is wrong, and what to do; ``open_tick`` is the tick that waits for an answer."""

    code: str
    detail: str
    remedy: str
    open_tick: NotRequired[int]
    retry_after_s: NotRequired[float]


_REMEDIES: Mapping[type[errors.ClvlabError], str] = {
    errors.UnknownSeatError: "call enter, and use the seat that it returns, with the same token",
    errors.SeatConflictError: "read clv://seats/{seat}, and answer the open tick; without one, call enter",
    errors.SeatTooLongError: "give shorter reasons, or enter with fewer fixtures",
    errors.DecisionError: "name a market and a side that the tick shows, or WAIT",
    errors.UnknownPackError: "call list_packs, and name one of its packs",
    errors.UnknownFixtureError: "leave fixture_ids out, or name fixtures of the pack",
    errors.UnknownRunError: "use the run_id of a sealed run, as backtest, grade_bets or standing return it",
    errors.SourceError: "correct the bets as the sentence says, and call grade_bets again",
    errors.AgentError: "name a template and parameters that it has",
    errors.OwnerLimitError: "end what is open, or wait retry_after_s seconds",
    errors.BusyError: "call again after retry_after_s seconds",
    errors.StoreError: "call again later; the operator has the cause in the log",
}
_ANY = "change what the sentence names, and call again"


def fault(error: errors.ClvlabError) -> Fault:
    """Return an error as its code, its sentence and the remedy of its kind."""
    remedy = next((_REMEDIES[kind] for kind in type(error).__mro__ if kind in _REMEDIES), _ANY)
    detail = STORE_DETAIL if isinstance(error, errors.StoreError) else str(error)
    made: Fault = {"code": problem_type(type(error)).rpartition(":")[2], "detail": _short(detail), "remedy": remedy}
    open_tick = getattr(error, "open_tick", None)
    if open_tick is not None:
        made["open_tick"] = open_tick
    if error.retry_after_s is not None:
        made["retry_after_s"] = error.retry_after_s
    return made


def invalid(error: ValidationError) -> Fault:
    """Return what is wrong with arguments, by their names; what was sent is not repeated."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    named = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in found[:_NAMED]]
    return {
        "code": INVALID,
        "detail": _short("; ".join(named)),
        "remedy": "send the arguments that the tool's input schema has",
    }


def _short(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARACTERS else text[:_DETAIL_CHARACTERS] + "..."


def fitted(answer: JsonObject, lengthy: str | None = None, more: str | None = None) -> tuple[JsonObject, str]:
    """Return an answer and its text, which together fit into ``MOST_BYTES``.

    The text is the answer as JSON. If both do not fit, the text is short, and names the resource ``more``; if the answer alone
    does not fit, the list ``lengthy`` is cut too, and the answer names the resource.
    """
    text = orjson.dumps(answer)
    if _size(text, text) <= MOST_BYTES:
        return answer, text.decode()
    brief = {name: value for name, value in answer.items() if not isinstance(value, list | dict)}
    if more is not None:
        answer, brief = answer | {"more": more}, brief | {"more": more}
    kept, brief_text = orjson.dumps(answer), orjson.dumps(brief)
    rows = list(answer[lengthy]) if lengthy is not None else []
    while rows and _size(kept, brief_text) > MOST_BYTES:
        excess = _size(kept, brief_text) - MOST_BYTES
        del rows[-max(1, len(rows) * excess // (2 * len(kept))) :]
        answer = answer | {str(lengthy): rows}
        kept = orjson.dumps(answer)
    return answer, brief_text.decode()


def _size(answer: bytes, text: bytes) -> int:
    """Return the bytes of a result; in JSON the text is quoted once more."""
    return _ENVELOPE_BYTES + len(answer) + len(orjson.dumps(text.decode()))
