"""Captures: what live feeds send, written down as it comes, and read again into the same ticks."""
