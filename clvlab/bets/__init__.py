"""Bets that somebody placed, graded against a pack: read, put on the tape, sealed as a run, and told row by row."""
