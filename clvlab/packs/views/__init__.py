"""Packs that are made of other packs by a rule, and copy nothing: views, several as one, and sources joined."""
