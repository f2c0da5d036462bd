"""Packs: frozen, hash-verified ticks on disk. The only code that touches pack files."""
