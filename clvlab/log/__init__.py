"""The append-only log of every run: its entries, its tree, and the keys that sign and witness it."""
