"""Captures: what live feeds sent, read again into the same ticks."""
