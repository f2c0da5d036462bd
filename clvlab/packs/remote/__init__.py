"""Packs and runs that lie in a bucket or behind a web server."""
