"""Proof: from sealed bytes to verdicts. Uses the law and nothing that could make a result."""
