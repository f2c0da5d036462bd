"""The typed HTTP client of a clvlab service."""

from clvlab.client.asking import ApiError
from clvlab.client.client import Client

__all__ = ["ApiError", "Client"]
