"""The Odds API: its answers, files of them, and its live feed."""
