"""Matches that fixtures of two sources share, found by teams, kickoff and prices, and never by a guess."""
