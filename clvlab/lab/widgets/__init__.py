"""Widgets: what a notebook shows live."""
