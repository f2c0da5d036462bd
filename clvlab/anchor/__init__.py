"""Commitments that others can see: memos on a public chain, and the log of every run."""
