"""Agents of one's own run in processes of their own, never in the one that scores, seals or verifies."""
