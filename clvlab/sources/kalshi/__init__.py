"""Kalshi: the messages of its order books, the answers of its REST interface, and its live feed."""
