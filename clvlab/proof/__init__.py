"""Verification of sealed bytes: from the files of a run to verdicts, by the law, without code that makes results."""
