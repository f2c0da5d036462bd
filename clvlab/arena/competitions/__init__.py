"""Competitions: rosters, the run of several agents, its events."""
