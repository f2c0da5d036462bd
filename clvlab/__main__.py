"""``python -m clvlab``."""

from clvlab.cli import main

if __name__ == "__main__":
    main()
