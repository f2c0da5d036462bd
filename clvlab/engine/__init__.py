"""Replay a tape through agents and seal their decisions, deterministically and offline."""
