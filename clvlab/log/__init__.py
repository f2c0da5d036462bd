"""The append-only log of every run: its entries, its tree, who signs it and who watches it."""
