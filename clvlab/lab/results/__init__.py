"""Results of runs, as objects with cards and tables."""
