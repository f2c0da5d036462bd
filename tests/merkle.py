"""Consistency proofs as RFC 9162 (2.1.4.1) defines them: plain recursion over all leaves, to hold the stored tree against."""

from clvlab.errors import EvidenceError
from clvlab.proof.merkle import _split, root


def consistency_proof(leaves, first):
    """Prove that the tree over ``leaves`` extends the one over its first ``first`` leaves (RFC 9162 2.1.4.1)."""
    if not 0 < first <= len(leaves):
        raise EvidenceError(f"no tree of {first} leaves inside one of {len(leaves)}")
    return _subproof(leaves, first, whole=True)


def _subproof(leaves, first, *, whole):
    if first == len(leaves):
        return [] if whole else [root(leaves)]
    k = _split(len(leaves))
    if first <= k:
        return [*_subproof(leaves[:k], first, whole=whole), root(leaves[k:])]
    return [*_subproof(leaves[k:], first - k, whole=False), root(leaves[:k])]
