"""Every public name says what it is, and shows it by an example; the examples run with the other doctests."""

import inspect
import re

import clvlab
from tests.factories import ERRORS


def public_members():
    """Every public name and every public method or property of a public class, by its dotted name."""
    found = {name: getattr(clvlab, name) for name in clvlab.__all__}
    for name, thing in list(found.items()):
        if inspect.isclass(thing):
            for owner in thing.__mro__:
                if owner.__module__.partition(".")[0] == "clvlab":
                    found |= {f"{name}.{own}": value for own, value in vars(owner).items() if shown(own, value)}
    return found | {f"errors.{kind.__name__}": kind for kind in ERRORS}


def shown(name, value):
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod))


MEMBERS = public_members()
# An error is raised and not called, and a property is shown where its class is.
CALLED = {name: thing for name, thing in MEMBERS.items() if not name.startswith("errors") and not isinstance(thing, property)}


def test_have_a_docstring_that_begins_with_a_sentence(subtests):
    for name, thing in MEMBERS.items():
        with subtests.test(name):
            first, *_ = (inspect.getdoc(thing) or "").splitlines()
            assert first.endswith((".", "?"))


def test_show_how_they_are_called(subtests):
    for name, thing in CALLED.items():
        owner, _, method = name.rpartition(".")
        with subtests.test(name):
            own, of_class = examples(thing), examples(MEMBERS.get(owner))
            assert own or re.search(rf"\b{method}\(", of_class), f"neither {name} nor its class has an example with it"


def examples(thing):
    """The lines of the examples of a docstring that are run."""
    text = inspect.getdoc(thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing) or ""
    return "\n".join(line for line in text.partition("Examples\n--------\n")[2].splitlines() if line[:3] in (">>>", "..."))


def test_name_every_parameter_or_are_told_by_their_name(subtests):
    for name, thing in CALLED.items():
        text = inspect.getdoc(thing) or ""
        if not inspect.isfunction(thing) or "Parameters\n----------\n" not in text:
            continue
        documented = {word.strip(" ,*") for line in sections(text)["Parameters"] for word in line.split(",") if line[:1] != " "}
        asked = set(inspect.signature(thing).parameters) - {"self"}
        with subtests.test(name):
            assert asked - documented == set()


def sections(text):
    lines = text.splitlines()
    heads = [n for n, line in enumerate(lines) if n + 1 < len(lines) and line and set(lines[n + 1]) == {"-"}]
    return {lines[n]: lines[n + 2 : end] for n, end in zip(heads, [*heads[1:], len(lines)], strict=True)}
