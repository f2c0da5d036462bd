"""Storage of sealed runs."""
