"""Grade a user's bets against a pack: read them, put them on the tape, seal them as a run, and report row by row."""
