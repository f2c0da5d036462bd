"""Uploads of packs: received, verified in a separate process, and kept apart from the catalog."""
