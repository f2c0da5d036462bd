"""``python -m tests.architecture.snapshots`` writes anew what is exposed: names with signatures, commands with options."""

import inspect
from collections.abc import Iterator
from pathlib import Path

EXPOSED = Path(__file__).with_name("exposed.txt")


def _names() -> Iterator[str]:
    import clvlab

    for name in dir(clvlab):
        thing = getattr(clvlab, name)
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
    import typer

    from clvlab.cli.app import app

    yield from _options("clvlab", typer.main.get_command(app))


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


if __name__ == "__main__":
    EXPOSED.write_text(exposed(), encoding="utf-8")
