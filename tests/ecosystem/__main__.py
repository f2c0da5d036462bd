"""``python -m tests.ecosystem inspect|verifiers``: a framework of others plays a served arena, in an environment of its own.

The environment is made in a temporary folder, or in the one that ``--env`` names, which is kept.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.ecosystem.served import arena

FOLDER = Path(__file__).parent
REQUIREMENTS = {
    "inspect": ["inspect_ai==0.3.285", "mcp>=2.0,<3"],
    "verifiers": ["verifiers==0.4.0"],
}


def python_of(env, requirements):
    """Make an environment, unless it is there, install what is required, and return its Python."""
    python = env / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", env], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)  # pip itself would take minutes to resolve
    subprocess.run([python, "-m", "uv", "pip", "install", "--quiet", "--python", python, *requirements], check=True)
    return python


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    parser.add_argument("which", choices=REQUIREMENTS)
    parser.add_argument("--env", type=Path, help="folder of the environment, which is kept")
    own = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, arena() as url:
        python = python_of((own.env or Path(folder, "env")).absolute(), REQUIREMENTS[own.which])
        script = FOLDER / f"{own.which}_player.py"
        sys.exit(subprocess.run([python, script, f"{url}/mcp/practice"], cwd=folder, check=False).returncode)


if __name__ == "__main__":
    main()
