"""``clvlab``, also as ``python -m clvlab``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; print the version alone without it, because scripts ask often and wait."""
    if sys.argv[1:] == ["--version"]:
        from clvlab.runs.versions import own_version

        sys.stdout.write(f"clvlab {own_version()}\n")
        return

    try:
        from clvlab.cli import main as command_line

        command_line()
    except KeyboardInterrupt:  # before a command began
        sys.stderr.write("\ninterrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
