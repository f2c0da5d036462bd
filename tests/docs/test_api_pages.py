"""Every public name, and every class that one of them returns, has its place in the API of the site."""

import importlib
import inspect
import typing
from functools import cached_property

import clvlab
from docs.site import api
from tests.factories import ERRORS

COMPUTED = property | cached_property | classmethod | staticmethod


def listed():
    """The objects on the pages of the API, each with the page that it stands on."""
    return {thing: page.name for page in api.PAGES for name in page.names for thing in objects(name)}


def objects(name):
    module, _, everything = name.partition(":")
    if everything:
        found = importlib.import_module(module)
        own = [key for key, value in vars(found).items() if getattr(value, "__module__", "") == module and key[0] != "_"]
        return [getattr(found, key) for key in getattr(found, "__all__", own) if callable(getattr(found, key))]
    home, _, own = name.rpartition(".")
    return [getattr(importlib.import_module(home), own)]


def returned(thing):
    """The classes of clvlab in what a function or a property says that it returns."""
    function = getattr(thing, "fget", None) or getattr(thing, "func", None) or getattr(thing, "__func__", None) or thing
    function = inspect.unwrap(function)
    said = function.__annotations__.get("return", "")
    try:
        return list(classes(eval(said, function.__globals__ | {"Self": None}) if isinstance(said, str) and said else said))
    except NameError:  # a name of matplotlib or of a provider, imported for the checker of types alone
        return []


def classes(annotation):
    if isinstance(annotation, type) and annotation.__module__.startswith("clvlab"):
        yield annotation
    for part in (*typing.get_args(annotation), *filter(None, [getattr(annotation, "__value__", None)])):
        yield from classes(part)


def reachable():
    """Every class that somebody meets who starts from the public names, with the way there."""
    waiting = [(name, getattr(clvlab, name)) for name in clvlab.__all__ if name != "errors"]
    found = {}
    while waiting:
        way, thing = waiting.pop()
        if thing in found:
            continue
        if not inspect.isclass(thing):
            waiting += [(f"{way}()", own) for own in returned(thing)]
            continue
        found[thing] = way
        for owner in thing.__mro__:
            if owner.__module__.startswith("clvlab"):
                waiting += [
                    (f"{way}.{name}", own)
                    for name, value in vars(owner).items()
                    if name[0] != "_"
                    and (
                        inspect.isfunction(value) or isinstance(value, property | cached_property | classmethod | staticmethod)
                    )
                    for own in returned(value)
                ]
    return found


def test_every_public_name_is_on_a_page():
    names = {name.partition(":")[0] for page in api.PAGES for name in page.names}

    assert [name for name in clvlab.__all__ if f"clvlab.{name}" not in names] == []


def test_every_class_that_they_return_is_on_a_page():
    places, found = listed(), reachable()

    assert len(found) > 60
    assert [f"{thing.__module__}.{thing.__qualname__} by {way}" for thing, way in found.items() if thing not in places] == []


def test_every_name_of_statistics_and_errors_is_on_a_page():
    places = listed()

    statistics = importlib.import_module("clvlab.statistics")
    functions = [getattr(statistics, name) for name in statistics.__all__ if callable(getattr(statistics, name))]
    assert [thing for thing in [*ERRORS, *functions] if thing not in places] == []


def test_no_name_stands_on_two_pages():
    names = [name for page in api.PAGES for name in page.names]

    assert len(names) == len(set(names))
    assert len({page.name for page in api.PAGES}) == len(api.PAGES)
