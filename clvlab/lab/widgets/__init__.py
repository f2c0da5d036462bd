"""Widgets: the live displays of a notebook."""
