"""The digest of a user agent's source: what names its code in a seal."""

from __future__ import annotations

import inspect
import marshal
from collections.abc import Callable
from textwrap import dedent
from typing import Any

from clvlab.proof.canonical import sha256

__all__ = ["source_sha256"]


def source_sha256(code: Callable[..., Any] | type) -> str:
    """Hash the text of a function or class; of a function without a text, as in ``python -c``, its bytecode.

    What the code calls or reads from elsewhere is not covered: agents that differ only there have the same digest.
    """
    try:
        return sha256(dedent(inspect.getsource(code)).encode())
    except (OSError, TypeError):  # no file holds it
        functions = (
            [code]
            if inspect.isfunction(code)
            else [value for _, value in sorted(vars(code).items()) if inspect.isfunction(value)]
        )
        return sha256(b"".join(marshal.dumps(function.__code__) for function in functions))
