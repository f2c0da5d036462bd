"""Pages for people, at the addresses that answer programs with JSON."""
