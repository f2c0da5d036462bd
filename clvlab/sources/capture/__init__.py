"""Captures: messages of live feeds, written on arrival, and read again into the same ticks."""
