"""Public commitments: memos on a chain."""
