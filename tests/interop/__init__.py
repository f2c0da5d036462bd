"""Logs, proofs and notes judged by code that is not ours: Go's ``tlog`` and ``note``, and sigstore's Merkle code."""
