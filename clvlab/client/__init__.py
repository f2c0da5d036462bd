"""The typed HTTP client of a clvlab service."""

from clvlab.client.client import Client
from clvlab.client.http import ApiError

__all__ = ["ApiError", "Client"]
