"""Run users' agents in processes of their own, never in the one that scores, seals or verifies."""
