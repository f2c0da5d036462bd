"""Is a pack a genuine capture? Shown by doing the normalisation again, not by its label."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from clvlab.errors import SourceError
from clvlab.law.tape import Tape
from clvlab.packs.captures.sources import CAPTURES
from clvlab.packs.files import content_digest
from clvlab.packs.importers import NORMALISERS
from clvlab.packs.importers.source import Options
from clvlab.packs.manifest import Fixture, PackManifest

_LABELS = ("margin", "consensus", "closing_source", "closing_policy", "kickoff", "reading")


def is_genuine(folder: Path, manifest: PackManifest, tape: Tape) -> bool:
    """Tell whether the raw messages in a pack give exactly its ticks, times, gaps and label.

    True needs all of: a ``genuine-`` label that the normaliser itself gives to these messages, and its other labels, of which
    one says how markets close; the raw files with their digests and no others; fixtures, and a capture with method, span and
    gaps, as the messages show them; and equal ticks row for row.
    """
    named = manifest.normaliser or ""
    normalise = CAPTURES[named].normalise if named in CAPTURES else NORMALISERS.get(named)
    if not manifest.provenance.startswith("genuine-") or normalise is None or not manifest.raw:
        return False
    # A pack that names no league at all was made before its normaliser read them: what it says is judged, not what it lacks.
    leagues = any(fixture.league is not None for fixture in manifest.fixtures)
    kept = {raw.name: folder / "raw" / raw.name for raw in manifest.raw}
    try:
        present = {path.name for path in (folder / "raw").iterdir()}
        digests_hold = all(content_digest(kept[raw.name]) == raw.digest for raw in manifest.raw)
        with tempfile.TemporaryDirectory(prefix="clvlab-") as scratch:
            rule = 1 if manifest.reading is None else manifest.reading.rule
            again = normalise(kept, Options(reading_rule=rule), Path(scratch))
            ticks = Tape.from_ticks(again.ticks, tape.fixtures)
    except (SourceError, OSError):  # unreadable raw files show nothing
        return False
    return (
        digests_hold
        and present == set(kept)
        and again.provenance == manifest.provenance
        and again.capture == manifest.capture
        and all(getattr(again, label) == getattr(manifest, label) for label in _LABELS)
        and _said(again.fixtures, leagues=leagues) == _said(manifest.fixtures, leagues=leagues)
        and ticks.rows.equals(tape.rows)
        and ticks.series.equals(tape.series)
    )


def _said(fixtures: Sequence[Fixture], *, leagues: bool) -> list[Fixture]:
    """Return fixtures without what follows from their ticks, and without leagues unless these are judged."""
    left_out = {"rows": 0, "digest": None} | ({} if leagues else {"league": None})
    return [fixture.model_copy(update=left_out) for fixture in fixtures]
