"""Basics for all other folders: files, caches, times, suggestions for wrong names, and parallel work."""
