"""Installed parts of clvlab, and what each missing extra is for."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from clvlab.arena.packs import bundled_catalog, verified_pack
from clvlab.base.names import did_you_mean
from clvlab.errors import ArgumentError, ClvlabError, MissingExtraError, install_advice
from clvlab.runs.versions import judge


def install_command(requirement: str) -> str:
    """Return the command that installs a requirement into this environment, whatever ``pip`` is on the path."""
    return install_advice(requirement, f"{shlex.quote(sys.executable)} -m pip")


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra: what it is for, and the modules that show whether it is installed, each with its distribution."""

    name: str
    gives: str
    modules: dict[str, str]

    @property
    def missing(self) -> list[str]:
        return [distribution for module, distribution in self.modules.items() if find_spec(module) is None]

    @property
    def command(self) -> str:
        """Command that installs it."""
        return install_command(f"clvlab[{self.name}]")


_CLIENT = {"httpx2": "httpx2", "websockets": "websockets"}
_SERVICE = (
    {name: name for name in ("fastapi", "uvicorn", "jinja2", "sqlalchemy", "alembic", "matplotlib", "structlog", "psycopg")}
    | {"jwt": "pyjwt", "fastapi_offline": "fastapi-offline", "prometheus_client": "prometheus-client"}
    | {"starlette_compress": "starlette-compress", **_CLIENT}
)
EXTRAS: tuple[Extra, ...] = (
    Extra(
        "notebook",
        "JupyterLab with widgets, pictures, tear sheets and laboratories",
        {name: name for name in ("jupyterlab", "anywidget", "ipywidgets", "matplotlib", "plotly", "sqlalchemy", "alembic")}
        | _CLIENT,
    ),
    Extra(
        "service",
        "the HTTP service, its pages and its database",
        _SERVICE,
    ),
    Extra("arena", "the arena and the laboratory over MCP, of a service and by `clvlab mcp`", {**_SERVICE, "mcp": "mcp"}),
    Extra("client", "asking a service over HTTP, and live feeds", _CLIENT),
    Extra("anchor", "anchors of seals on a public chain", {name: name for name in ("cryptography", "solana", "solders")}),
    Extra("llm", "asking a model for proposals", {"httpx2": "httpx2"}),
    Extra(
        "stamps",
        "stamps of time-stamp authorities",
        {"rfc3161_client": "rfc3161-client", "cryptography": "cryptography", **_CLIENT},
    ),
    Extra("remote", "packs and runs in buckets", {name: name for name in ("obstore", "platformdirs")}),
    Extra("dask", "searches on a Dask cluster", {"distributed": "distributed"}),
)
"""All extras, the most useful for new users first; names and modules are those of ``pyproject.toml``."""


def check_extras(*names: str) -> None:
    """Check that extras are installed, such as ``notebook``, ``service`` or ``arena``.

    Parameters
    ----------
    *names
        Names of required extras.

    Raises
    ------
    MissingExtraError
        An extra is not installed; the message is the command that installs it.
    ArgumentError
        There is no such extra.

    Examples
    --------
    >>> check_extras("client")
    """
    known = {extra.name: extra for extra in EXTRAS}
    for name in names:
        if name not in known:
            raise ArgumentError(f"there is no extra {name!r:.80}{did_you_mean(name, known)}; there are {', '.join(known)}")
        if missing := known[name].missing:
            raise MissingExtraError(name, missing[0])


def installation() -> dict[str, Any]:
    """Return versions, extras, and whether each bundled pack verifies, as JSON values."""
    extras = [
        {"extra": extra.name, "installed": not extra.missing, "gives": extra.gives, "missing": extra.missing}
        | ({"command": extra.command} if extra.missing else {})
        for extra in EXTRAS
    ]
    catalog = bundled_catalog()
    names = sorted({distribution for extra in EXTRAS for distribution in extra.modules.values()})
    libraries = {name: found for name in names if (found := _version(name))}
    return {"versions": judge(), "libraries": libraries, "extras": extras, "packs": {
        name: _fault(name) for name in sorted(catalog.entries())
    }}  # fmt: skip


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _fault(pack_id: str) -> str | None:
    try:
        verified_pack(pack_id)
    except ClvlabError as error:
        return str(error)
    return None
