"""Packs that owners upload: received, verified in a process of their own, kept beside the catalog."""
