"""Seats: agents that run elsewhere answer a past tape tick by tick."""
