"""A transcript: what a language model proposed at which ticks, as a file with a digest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clvlab.agents.llm import MAX_ENTRIES, Entry, entries_sha256
from clvlab.errors import AgentError, EvidenceError
from clvlab.files import new_file
from clvlab.proof.canonical import canonical, parsed, sha256

_SCHEMA = "clvlab-transcript/1"


class Answer(BaseModel):
    """What came back at one checkpoint.

    Attributes
    ----------
    fixture_id, tick_seq
        The checkpoint.
    prompt_sha256
        Digest of the prompt, which can be built again from the tape.
    text
        The answer as it came, cut to 4000 characters; null if there was none.
    error, detail
        Why the answer gave no proposal, as a word and a sentence; null if it gave one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    fixture_id: int
    tick_seq: int
    prompt_sha256: str
    text: str | None = None
    error: str | None = None
    detail: str | None = None


class _File(BaseModel):
    """The JSON object that a transcript's file is."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_: Literal["clvlab-transcript/1"] = Field(alias="schema")
    model: str
    content_hash: str | None
    entries: Annotated[tuple[Entry, ...], Field(strict=False, max_length=MAX_ENTRIES)]
    answers: Annotated[tuple[Answer, ...], Field(strict=False, max_length=MAX_ENTRIES)]
    sha256: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """Recorded proposals, and how they came about.

    Attributes
    ----------
    model
        Who was asked.
    content_hash
        Of the pack that was shown; null for a tape without one.
    entries
        One proposal a checkpoint: the model's, or a WAIT where it gave none.
    answers
        One a checkpoint, in the order of the entries.

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
    answers: tuple[Answer, ...]

    @property
    def errors(self) -> tuple[Answer, ...]:
        """The checkpoints at which there was no proposal."""
        return tuple(answer for answer in self.answers if answer.error is not None)

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the template ``llm`` that replay this transcript."""
        entries = [entry.model_dump(mode="json") for entry in self.entries]
        return {"transcript": entries, "transcript_sha256": entries_sha256(self.entries)}

    @property
    def sha256(self) -> str:
        """Digest of everything in the file but this digest: SHA-256 of its canonical JSON."""
        return sha256(canonical(self._body()))

    def write(self, path: str | Path) -> Path:
        """Write the transcript as one canonical JSON object; an existing file is left alone.

        Raises
        ------
        AgentError
            The file exists.
        """
        data = canonical(self._body() | {"sha256": self.sha256})
        try:
            new_file(Path(path), data)
        except FileExistsError as error:
            raise AgentError(f"{path} exists: a recording is never written over, name another file") from error
        return Path(path)

    @classmethod
    def read(cls, path: str | Path) -> Transcript:
        """Read a transcript and check its digest.

        Raises
        ------
        AgentError
            No file, no transcript, or one whose content is not what its digest says.
        """
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

    def _body(self) -> dict[str, Any]:
        return {
            "schema": _SCHEMA,
            "model": self.model,
            "content_hash": self.content_hash,
            "entries": [entry.model_dump(mode="json") for entry in self.entries],
            "answers": [answer.model_dump(mode="json") for answer in self.answers],
        }
