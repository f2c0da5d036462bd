"""Ask a language model at checkpoints of a tape, show it only what was known then, and keep every answer.

This is the one module that calls a model. Its transcript is replayed offline by the template ``llm``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clvlab.agents.proposals import MAX_ENTRIES, Entry, entries_sha256
from clvlab.agents.template import Params
from clvlab.base.files import new_file
from clvlab.errors import AgentError, AskError, EvidenceError
from clvlab.law.actions import MAX_NAME_BYTES, MAX_REASON_BYTES
from clvlab.law.schema import Action
from clvlab.law.tape import Tape
from clvlab.proof.canonical import canonical, parsed, sha256

# A transcript: a language model's proposals by tick, as a file with a digest.


_SCHEMA = "clvlab-transcript/1"


class ModelAnswer(BaseModel):
    """A model's answer at one checkpoint, cut to 4000 characters, or why it gave no proposal."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fixture_id: int
    tick_seq: int
    prompt_sha256: str
    text: str | None = None
    error: str | None = None
    detail: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Literal["clvlab-transcript/1"] = Field(alias="schema")
    model: str
    content_hash: str | None
    entries: Annotated[tuple[Entry, ...], Field(strict=False, max_length=MAX_ENTRIES)]
    answers: Annotated[tuple[ModelAnswer, ...], Field(strict=False, max_length=MAX_ENTRIES)]
    sha256: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """Recorded proposals, one for each checkpoint, and the answers in the same order. A WAIT replaces a missing proposal.

    Examples
    --------
    >>> from clvlab.agents.registry import template
    >>> transcript = Transcript("by hand", None, (Entry(fixture_id=1, tick_seq=0, action="WAIT"),), ())
    >>> template("llm", transcript.params).config.transcript[0].action
    'WAIT'
    """

    model: str
    content_hash: str | None
    entries: tuple[Entry, ...]
    answers: tuple[ModelAnswer, ...]

    @property
    def errors(self) -> tuple[ModelAnswer, ...]:
        return tuple(answer for answer in self.answers if answer.error is not None)

    @property
    def params(self) -> Params:
        entries = [entry.model_dump(mode="json") for entry in self.entries]
        return {"transcript": entries, "transcript_sha256": entries_sha256(self.entries)}

    @property
    def sha256(self) -> str:
        """SHA-256 of the file's canonical JSON without this digest."""
        return sha256(canonical(self._body()))

    def write(self, path: str | Path) -> Path:
        """Write the transcript as one canonical JSON object; ``AgentError`` if the file exists."""
        data = canonical({**self._body(), "sha256": self.sha256})
        try:
            new_file(Path(path), data)
        except FileExistsError as error:
            raise AgentError(f"{path} exists: a recording is never written over, name another file") from error
        return Path(path)

    @classmethod
    def read(cls, path: str | Path) -> Transcript:
        """Read a transcript; ``AgentError`` if it is missing, malformed, or its digest differs."""
        try:
            value = parsed(Path(path).read_bytes())
            file = _File.model_validate(value)
        except OSError as error:
            raise AgentError(f"no transcript can be read at {path}: {error.strerror}") from error
        except (EvidenceError, ValidationError) as error:
            raise AgentError(f"{path} is no transcript: {str(error)[:500]}") from error
        found = cls(file.model, file.content_hash, file.entries, file.answers)
        if found.sha256 != file.sha256:
            raise AgentError(f"{path}: the digest is {found.sha256}, the file says {file.sha256}; it was altered")
        return found

    def _body(self) -> Mapping[str, object]:
        return {
            "schema": _SCHEMA,
            "model": self.model,
            "content_hash": self.content_hash,
            "entries": [entry.model_dump(mode="json") for entry in self.entries],
            "answers": [answer.model_dump(mode="json") for answer in self.answers],
        }


Ask = Callable[[str], str]

_HISTORY = 8
_MAX_TEXT = 4000
_MAX_DETAIL = 500
_FENCED = re.compile(r"\s*```[a-z]*\n(.*?)\n?```\s*", re.DOTALL)
_CLAIMS = ("action", "reason", "confidence", "claimed_edge_bps")
_POSITION = ("market_key", "side", "stake", "limit_odds_milli")
_INSTRUCTIONS = f"""\
You trade the betting markets of one fixture. You are judged by closing-line value: the side's probability at the market's
close, less its probability now. Below is everything that is known now. Probabilities are in basis points (0 to 10000, margin
removed), odds are decimal odds x 1000, times are in seconds. "earlier" lists a side's last probabilities, oldest first.

Answer with one JSON object and nothing else:
{{"action": "BACK" or "WAIT", "market_key": ..., "side": ..., "reason": ..., "confidence": ..., "claimed_edge_bps": ...}}
BACK needs a market_key and a side from below, exactly as written; WAIT has null for both. "reason" is a text of at most
{MAX_REASON_BYTES} bytes, "confidence" a number from 0 to 1, "claimed_edge_bps" an integer; each may be null.
"""


class _FixtureState(TypedDict):
    since_first_message_s: int
    in_play: bool
    markets: Sequence[Mapping[str, Any]]


def checkpoints(tape: Tape, every: int = 50) -> list[tuple[int, int]]:
    """Return (fixture_id, tick_seq) of every ``every``-th message of each fixture before play, in order."""
    if every < 1:
        raise AgentError(f"checkpoints need at least 1 message between them, not {every}")
    number = pl.int_range(1, pl.len() + 1).over("fixture_id")
    chosen = tape.messages.filter(~pl.col("in_running")).filter(number % every == 0)
    return list(chosen.select("fixture_id", "tick_seq").iter_rows())


def prompt_at(tape: Tape, fixture_id: int, tick_seq: int) -> str:
    """Return the prompt at a tick, from the fixture's messages up to that tick. Times count from its first message."""
    return _prompt(_known(tape, fixture_id, tick_seq))


def _prompt(known: _FixtureState) -> str:
    # The prompt has no names, id, dates, kickoff or results: a model could recognise the match and know its result.
    return f"{_INSTRUCTIONS}\n{json.dumps(known, ensure_ascii=False)}\n"


def record(tape: Tape, ask: Ask, at: Iterable[tuple[int, int]] | None = None, *, model: str | None = None) -> Transcript:
    """Ask a model at each checkpoint (``checkpoints(tape)`` by default) and return the transcript.

    A time-out, a failed call, an answer that is not a proposal, or an answer about a market or side that was not in the prompt
    becomes a recorded error and a WAIT. The recording then continues. ``AgentError`` for too many checkpoints, or a checkpoint
    that is not on the tape.
    """
    if not callable(ask):
        raise AgentError(f"ask must be a function of a prompt, not {type(ask).__name__}")
    own = getattr(ask, "model", None) or getattr(ask, "__name__", type(ask).__name__)
    name = _sealable(str(own if model is None else model), MAX_NAME_BYTES)
    chosen = sorted(set(checkpoints(tape) if at is None else at))
    if len(chosen) > MAX_ENTRIES:
        raise AgentError(f"a transcript holds at most {MAX_ENTRIES} entries, not {len(chosen)}: choose fewer checkpoints")
    absent = set(chosen) - set(tape.messages.select("fixture_id", "tick_seq").iter_rows()) if chosen else set()
    if absent:
        raise AgentError(f"{len(absent)} checkpoint(s) are not on the tape, the first is {min(absent)}")
    answered = [_answer_at(tape, ask, *checkpoint) for checkpoint in chosen]
    return Transcript(name, tape.binding.content_hash, tuple(e for e, _ in answered), tuple(a for _, a in answered))


def _answer_at(tape: Tape, ask: Ask, fixture_id: int, tick_seq: int) -> tuple[Entry, ModelAnswer]:
    known = _known(tape, fixture_id, tick_seq)
    prompt = _prompt(known)
    at = {"fixture_id": fixture_id, "tick_seq": tick_seq}
    answer: dict[str, object] = {**at, "prompt_sha256": sha256(prompt.encode())}
    try:
        text = _answer(ask, prompt)
        answer["text"] = _sealable(text, _MAX_TEXT)
        entry = _entry({**_proposal(text, known), **at})
    except AskError as error:
        answer |= {"error": error.kind, "detail": _sealable(error.detail, _MAX_DETAIL)}
        entry = _entry(at | {"action": "WAIT", "reason": f"no proposal: {error.kind}"})
    return entry, ModelAnswer.model_validate(answer)


def _answer(ask: Ask, prompt: str) -> str:
    try:
        text = ask(prompt)
    except AskError:
        raise
    except TimeoutError as error:
        raise AskError("timeout", str(error)) from error
    except Exception as error:  # ask is foreign code, and its failure is part of the recording
        raise AskError("ask_failed", f"{type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise AskError("bad_answer", f"ask must give a text, not {type(text).__name__}")
    return text


def _proposal(text: str, known: _FixtureState) -> Mapping[str, object]:
    """Read a proposal about a market and side in the prompt. Unknown keys are ignored."""
    fenced = _FENCED.fullmatch(text)
    try:
        answer = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise AskError("bad_json", f"the answer is no JSON: {text}") from error
    if not isinstance(answer, dict):
        raise AskError("bad_json", f"the answer must be a JSON object, not {type(answer).__name__}")
    if answer.get("action") == Action.WAIT:
        return {key: answer[key] for key in _CLAIMS if key in answer}
    if answer.get("action") != Action.BACK:
        raise AskError("bad_answer", f"action must be BACK or WAIT, not {answer.get('action')!r:.100}")
    sides = {market["market_key"]: [side["side"] for side in market["sides"]] for market in known["markets"]}
    market_key, side = str(answer.get("market_key")), answer.get("side")
    if market_key not in sides:
        raise AskError("unknown_market", f"no market {market_key!r} was shown")
    if side not in sides[market_key]:
        raise AskError("unknown_side", f"market {market_key!r} has no side {side!r}")
    return {key: answer[key] for key in (*_CLAIMS, *_POSITION) if key in answer}


def _entry(proposal: Mapping[str, object]) -> Entry:
    try:
        return Entry.model_validate(proposal)
    except ValidationError as error:
        wrong = error.errors()[0]
        name = ".".join(map(str, wrong["loc"])) or "answer"
        raise AskError("bad_answer", f"{name} = {wrong['input']!r:.100}: {wrong['msg']}") from error


def _known(tape: Tape, fixture_id: int, tick_seq: int) -> _FixtureState:
    fixture = tape.fixture(fixture_id)
    seen = fixture.rows.filter(pl.col("tick_seq") <= tick_seq).join(fixture.series.with_row_index("series"), on="series")
    if seen.is_empty():
        raise AgentError(f"nothing is known at tick {tick_seq} of fixture {fixture_id}")
    times = seen["ts_ms"].sort()
    start, now = int(times[0]), int(times[-1])
    sides = (
        seen.sort("series", "tick_seq")
        .group_by("market_key", "side", maintain_order=True)
        .agg(
            pl.col("prob_bps", "odds_milli", "suspended").last(),
            age_s=(now - pl.col("ts_ms").last()) // 1000,
            earlier=pl.col("prob_bps").slice(0, pl.len() - 1).tail(_HISTORY),
        )
    )
    markets = [
        {
            "market_key": market.row(0, named=True)["market_key"],
            "suspended": market["suspended"][0],
            "age_s": market["age_s"][0],
            "sides": market.select("side", "prob_bps", "odds_milli", "earlier").to_dicts(),
        }
        for market in sides.partition_by("market_key", maintain_order=True)
    ]
    in_play = bool(seen.filter(pl.col("tick_seq") == tick_seq)["in_running"].any())
    return {"since_first_message_s": (now - start) // 1000, "in_play": in_play, "markets": markets}


def _sealable(text: str, limit: int) -> str:
    """Cut a text, and replace lone surrogates, which UTF-8 can't encode."""
    return text[:limit].encode(errors="replace").decode()
