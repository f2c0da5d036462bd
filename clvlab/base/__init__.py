"""Basics for all other folders: files, caches, times, wrong names, work in parallel."""
