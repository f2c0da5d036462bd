"""The law: closing-line value recomputed from states, in integers. Pure Polars, no I/O, no clock."""
