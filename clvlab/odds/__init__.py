"""Arithmetic on quotes."""
