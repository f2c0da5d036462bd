"""What hangs together: the teams of a competition, the fixtures of two sources that could be each other."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Groups(Generic[T]):
    """What hangs together."""

    def __init__(self) -> None:
        self._parent: dict[T, T] = {}

    def root(self, node: T) -> T:
        """Return what is the same for all that hang together."""
        parent = self._parent
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def join(self, one: T, other: T) -> None:
        self._parent[self.root(one)] = self.root(other)
