"""Runs: planned, made, sealed, and searched; live ones as well."""
