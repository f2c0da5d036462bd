"""Recomputation of closing-line value from states, in integers, by pure Polars without I/O or a clock."""
