"""Which fixtures of two sources are the same match: by teams, kickoff and prices, and never by a guess."""
