"""What the snapshots know of clvlab by name: when modules move, these are the imports to change.

Beside them they use ``tests.commands``, ``tests.waiting``, ``tests.chains`` and the bucket of ``tests.packs.remote``.
"""

from clvlab_service.app import create_app
from clvlab_service.dev import AUDIENCE, ISSUER, dev_token, public_key_file
from clvlab_service.settings import Settings

import clvlab as library
from clvlab import errors
from clvlab.arena.application import Application
from clvlab.arena.installation import Extra
from clvlab.arena.uploads.intake import IncomingUpload
from clvlab.arena.uploads.uploads import UploadJobs
from clvlab.cli import app as commands

SERVE = "clvlab_service.server.serve"
"""Where the command ``serve`` finds what it calls."""
DISTRIBUTION_VERSION = "clvlab.arena.installation.version"
"""Where the command ``doctor`` finds what says which version of a library is installed."""

__all__ = [
    "AUDIENCE",
    "DISTRIBUTION_VERSION",
    "ISSUER",
    "SERVE",
    "Application",
    "Extra",
    "IncomingUpload",
    "Settings",
    "UploadJobs",
    "commands",
    "create_app",
    "dev_token",
    "errors",
    "library",
    "public_key_file",
]
