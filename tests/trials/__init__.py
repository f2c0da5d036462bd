"""Trials of a service under faults: real processes that are killed, stopped, starved and flooded."""
