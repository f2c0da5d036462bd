"""The command line: parse, call, print."""

from clvlab.cli.app import app, main

__all__ = ["app", "main"]
