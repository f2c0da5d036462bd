"""Verify sealed bytes: from the files of a run to verdicts, by the law and without any code that makes results."""
