"""Packs and runs in a bucket or on a web server."""
