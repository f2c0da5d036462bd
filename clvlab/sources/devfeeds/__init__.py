"""Servers on loopback that speak the protocols of providers, for tests and for a first look."""
