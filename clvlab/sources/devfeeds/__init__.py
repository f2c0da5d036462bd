"""Feeds on this machine that speak the protocols of providers, for tests and for a first look: real servers on loopback."""
