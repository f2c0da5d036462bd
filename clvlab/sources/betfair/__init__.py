"""Betfair: the messages of its Exchange Stream, its historical files, and its live feed."""
