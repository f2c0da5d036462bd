"""Every error that clvlab raises on purpose; knows no HTTP and no I/O."""

from __future__ import annotations

__all__ = [
    "AgentError",
    "AskError",
    "ClvlabError",
    "DecisionError",
    "EvidenceError",
    "LookaheadError",
    "MissingLibraryError",
    "PackError",
    "PackFormatError",
    "PackTamperedError",
    "PolicyError",
    "RunConflictError",
    "SchemaError",
    "SourceError",
    "StatisticsError",
    "UnknownAgentError",
    "UnknownFixtureError",
    "UnknownPackError",
    "UnknownRunError",
    "WindowError",
]


class ClvlabError(Exception):
    """Root of all errors of this package; one sentence that names the value, and what to do about it."""


class SchemaError(ClvlabError):
    """A frame lacks a column or carries another dtype than its schema says."""


class WindowError(ClvlabError):
    """A window specification that can't be applied."""


class DecisionError(ClvlabError):
    """An agent returned decisions that can't be sealed."""


class AgentError(ClvlabError):
    """An agent's configuration or transcript can't be used."""


class LookaheadError(AgentError):
    """An agent whose decisions depend on later ticks."""


class UnknownAgentError(AgentError):
    """No strategy template of that name is registered."""


class PolicyError(ClvlabError):
    """A policy envelope with a value out of its range."""


class AskError(AgentError):
    """A model that was asked gave no usable answer; ``kind`` is one word, ``detail`` a sentence."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class EvidenceError(ClvlabError):
    """Evidence that is not canonical, not complete or not in order."""


class PackError(ClvlabError):
    """Root of all errors about packs."""


class UnknownPackError(PackError):
    """No pack of that id in the catalog, and no pack folder at that path."""


class UnknownFixtureError(PackError):
    """The pack does not declare that fixture."""

    def __init__(self, fixture_id: int, pack_id: str, known: tuple[int, ...]) -> None:
        shown = ", ".join(str(f) for f in known[:5]) + (", ..." if len(known) > 5 else "")
        super().__init__(f"fixture {fixture_id} is not in pack {pack_id!r}; it has {len(known)}: {shown}")
        self.fixture_id = fixture_id
        self.pack_id = pack_id


class PackFormatError(PackError):
    """A pack that breaks the format: the message names the file, the rule and the value."""


class PackTamperedError(PackError):
    """A pack whose bytes, ticks or labels are not what its hashes say."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        super().__init__(f"{what}: expected {expected}, found {found}; restore the pack or build it again")
        self.expected = expected
        self.found = found


class SourceError(ClvlabError):
    """A source row that can't be read: the message names file, line and reason."""


class UnknownRunError(ClvlabError):
    """No sealed run at that path or under that id."""


class RunConflictError(ClvlabError):
    """A run of the same id is stored with other bytes."""

    def __init__(self, run_id: str, stored: str, offered: str) -> None:
        super().__init__(f"run {run_id} is stored with manifest {stored}, and this one has {offered}; nothing was written")
        self.stored = stored
        self.offered = offered


class MissingLibraryError(ClvlabError):
    """Something that needs a library which is not installed."""

    def __init__(self, library: str, what: str) -> None:
        super().__init__(f"{what} needs {library}, which is not installed: pip install {library}")
        self.library = library


class StatisticsError(ClvlabError):
    """Statistics that can't be made of what was given: too few backtests, different packs, an empty grid, a level of 2."""
