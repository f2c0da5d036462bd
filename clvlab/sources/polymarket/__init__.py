"""Polymarket: books of its assets, quotes and hourly files of them, and its live feed."""
