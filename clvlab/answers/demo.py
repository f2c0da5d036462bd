"""Bodies of the demo."""

from __future__ import annotations

from clvlab.answers.answer import Answer
from clvlab.answers.competitions import CompetitionLeaderboardRow
from clvlab.answers.runs import ProofArtifactResponse


class DemoResponse(Answer):
    """A competition of the demo, run, sealed and scored."""

    run_id: str
    competition_id: str
    anchor_status: str
    leaderboard: list[CompetitionLeaderboardRow]
    proof_card: ProofArtifactResponse
