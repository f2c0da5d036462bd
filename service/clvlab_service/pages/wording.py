"""Names of the interface in plain words."""

from __future__ import annotations

CHECKS = {
    "evidence_integrity": "Are the stored bytes the ones that were sealed?",
    "llm_boundary": "Is the code that scores kept apart from models and networks?",
    "metrics_recomputed": "Do the scores follow again from the sealed evidence alone?",
    "manifest_bound": "Does the manifest bind this run, its evidence and its scores?",
    "policy_obeyed": "Was only executed what the policy allowed?",
    "receipt_separation": "Is the evidence free of what venues said?",
    "anchor": "Was the manifest hash written to a public chain?",
}
"""What each check asks."""

SHOWN_VERDICTS = {"pass": "passes", "fail": "fails", "pending": "pending", "not_applicable": "does not apply"}

KINDS = {"competition": "Competition", "deploy": "Deployed agent", "backtest": "Backtest", "live": "Live run"}

STATUSES = {
    "queued": "It waits for its turn.",
    "running": "It is being replayed, scored and sealed.",
    "failed": "It failed, and nothing of it was sealed.",
}
"""What a run without a seal is doing."""

CAUSALITY = {
    "template": "a template of clvlab, whose code uses no later message",
    "transcript": "repeats what somebody wrote down, who may have known what came later",
    "stepped": "got each message after its answer to the one before, and saw no later one; its author may have known the past",
    "stepped-blocks": (
        "got each block of messages after its answer to the one before, and saw what came later within a block alone, cut "
        "where nobody knew; its author may have known the past"
    ),
    "audited-process": "decided the same when later messages were cut off, in processes of its own",
    "audited-sandbox": "decided the same when later messages were cut off, in processes that could read nothing else",
    "live": "decided before later messages existed",
    "unchecked": "not checked: it may have seen later messages",
    "tick-by-tick": "was given one message after the other",
    "prefix-audit": "decided the same when later messages were cut off",
}
"""How it was shown that an agent did not look ahead."""
