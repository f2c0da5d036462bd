"""Packs derived from other packs by a rule, without copies: views, concatenations and joined sources."""
