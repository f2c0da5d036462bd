"""The append-only log of runs: its entries, its tree, and the keys that sign and witness it."""
