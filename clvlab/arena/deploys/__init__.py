"""Deployed agents: configuration, preflight, instance, run."""
