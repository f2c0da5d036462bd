"""What takes fields by name, and how each of them is tried: a field that shapes nothing would be dropped."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import pytest

from clvlab.client import ApiError
from clvlab.errors import ClvlabError


class CommandError(Exception):
    """A command was refused."""


REFUSALS = (ClvlabError, ApiError, CommandError)


def parameters(verb, *left_out):
    return {name for name in inspect.signature(verb).parameters if name not in left_out}


@dataclass(frozen=True)
class Face:
    """What takes a question.

    Attributes
    ----------
    takes
        Names of its fields, by introspection.
    ask
        Puts a question with some of them, and gives what came of it.
    values
        Of each field that shapes a run, values that differ from its default; or a pair of these and what it goes with.
    refuses
        Fields that it takes to say that they are for another face.
    apart
        Those that shape no run, each with a reason.
    without
        What came of a question without the field that is tried, by what else was asked: it is put once.
    """

    takes: Collection[str]
    ask: Callable[..., object]
    values: Mapping[str, object]
    refuses: Collection[str] = ()
    apart: Mapping[str, str] = field(default_factory=dict)
    without: dict[str, object] = field(default_factory=dict, repr=False)

    def draw(self, data, name):
        """A value of a field, and what it goes with."""
        own = self.values[name]
        values, beside = own if isinstance(own, tuple) else (own, {})
        return {name: data.draw(values)}, beside

    def check_listed(self):
        """Require every field to be tried, or to have a reason why it shapes nothing."""
        assert set(self.takes) == {*self.values, *self.apart}
        assert set(self.refuses) <= set(self.values)
        assert not set(self.values) & set(self.apart)

    def check_shows(self, data, name, *where):
        """Require a value of a field to show in what comes of it, or to be refused by name."""
        given, beside = self.draw(data, name)
        if name in self.refuses:
            with pytest.raises(REFUSALS, match=name):
                self.ask(*where, **beside | given)
        else:
            if repr(beside) not in self.without:
                self.without[repr(beside)] = self.ask(*where, **beside)
            assert self.ask(*where, **beside | given) != self.without[repr(beside)], f"{given} makes no difference"
