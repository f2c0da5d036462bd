"""Public names, commands and errors as text; and all texts of the snapshots, which this writes into a folder.

``snapshots.py`` starts it in a process of its own: widths, colours and time zones are read when modules are imported.
"""

import inspect
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import cache
from io import BytesIO, TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from types import WrapperDescriptorType
from typing import NoReturn
from unittest.mock import patch

import typer
from starlette.testclient import TestClient
from typer.models import CommandInfo

from tests.architecture.command_answers import said
from tests.architecture.faces import SERVE, Settings, commands, create_app, errors, library
from tests.architecture.http_answers import answers
from tests.commands import clvlab


def _names() -> Iterator[str]:
    for name in dir(library):
        thing = getattr(library, name)
        if inspect.isclass(thing):
            yield f"class {name}{_signature(thing)}"
            for member in sorted(one for one in dir(thing) if not one.startswith("_")):
                yield f"    {_member(member, inspect.getattr_static(thing, member))}"
        elif inspect.isroutine(thing):
            yield f"def {name}{_signature(thing)}"
        else:
            yield f"{name}: {type(thing).__name__}"


def _member(name: str, thing: object) -> str:
    thing = getattr(thing, "__func__", thing)
    return f"{name}{_signature(thing)}" if inspect.isroutine(thing) else name


def _signature(thing: object) -> str:
    """Return names, kinds and annotations of parameters as the source spells them, and which have a default."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):  # of C, which keeps none
        return "(...)"
    shown = [
        one.replace(default=inspect.Parameter.empty if one.default is one.empty else _Default(one.default))
        for one in signature.parameters.values()
    ]
    return str(signature.replace(parameters=shown))


class _Default:
    """Shows a plain value, and of another its type alone, whose text may hold an address."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        plain = self.value is None or isinstance(self.value, bool | int | float | str | tuple | frozenset)
        return repr(self.value) if plain else f"<{type(self.value).__name__}>"


def _commands() -> Iterator[str]:
    yield from _options("clvlab", typer.main.get_command(commands))


def _options(path: str, command) -> Iterator[str]:
    yield path
    for one in command.params:
        spelled = "/".join([*one.opts, *one.secondary_opts]) if one.param_type_name == "option" else one.name.upper()
        needed, several = " required" if one.required else "", " several" if one.multiple or one.nargs < 0 else ""
        yield f"    {spelled}: {one.type.name}{needed}{several}"
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from _options(f"{path} {name}", inner)


def exposed() -> str:
    """Return every public name and command, a line each."""
    return "\n".join([*_names(), "", *_commands(), ""])


def _made(kind: type[Exception]) -> Exception:
    """Return an error of a class, of as many texts, numbers and empty sequences as it is made of."""
    if isinstance(kind.__init__, WrapperDescriptorType):  # that of Exception
        return kind("why")
    own = list(inspect.signature(kind).parameters.values())
    return kind(*({"str": "why", "int": 1}.get(one.annotation, ()) for one in own if one.default is one.empty))


def failures(folder: Path) -> str:
    """Return how each class of errors is told: HTTP status and type, exit code of a command, and of ``serve`` if another."""
    raised: list[Exception] = []

    def refused(*_: object, **__: object) -> NoReturn:
        raise raised[-1]

    def told(kind: type[Exception]) -> str:
        raised.append(_made(kind))
        answer = client.get("/refused")
        code, of_serve = (clvlab(folder, command)[0] for command in ("refused", "serve"))
        again = f", Retry-After: {answer.headers['retry-after']}" if "retry-after" in answer.headers else ""
        ended = f"{code}" if code == of_serve else f"{code}, of serve {of_serve}"
        return f"{answer.status_code} {answer.json()['type']}{again}; {ended}; {raised[-1]}"

    (group,) = [one for one in commands.registered_groups if one.name == "service"]
    (serve,) = [one for one in group.typer_instance.registered_commands if one.callback.__name__ == "serve"]
    two = [CommandInfo("refused", callback=lambda: refused()), serve]
    few = patch.multiple(commands, registered_commands=two, registered_groups=[])  # to make all of them takes long
    with few, patch(SERVE, refused), redirect_stderr(TextIOWrapper(BytesIO())):
        app = create_app(Settings(log_level="error"))
        app.get("/refused")(lambda: refused())
        client = TestClient(app)
        kinds = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.ClvlabError)]
        rows = [f"{one.__name__}: {told(one)}" for one in sorted(kinds, key=lambda one: one.__name__)]
    return "\n".join(["class: HTTP status and type; exit code; what it says, made of 'why' and 1", "", *rows, ""])


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Make every text, with its name; what they need is written in a folder."""
    http, shell = folder / "http", folder / "shell"
    http.mkdir()
    shell.mkdir()
    yield "exposed.txt", exposed()
    yield "errors.txt", failures(folder)
    with patch.object(typer.main, "get_command", cache(typer.main.get_command)):  # it takes long, and is the same each time
        yield "commands.txt", said(shell)
    yield from zip(("answers.txt", "pages.txt"), answers(http), strict=True)


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        for name, text in texts(Path(made).resolve()):
            Path(sys.argv[1], name).write_text(text, encoding="utf-8")
