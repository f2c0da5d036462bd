"""Recompute closing-line value from states, in integers: pure Polars, no I/O, no clock."""
