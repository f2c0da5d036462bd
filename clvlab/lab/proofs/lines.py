"""Lines of a text by number, without cutting the text up."""

from __future__ import annotations

from functools import cached_property

import numpy as np


class Lines:
    r"""The lines of a text in which every line ends with a line feed; a last one without it counts as well.

    Examples
    --------
    >>> lines = Lines(b"a\nbc\n")
    >>> len(lines), lines.get(1), lines.span(1)
    (2, b'bc', (2, 4))
    """

    def __init__(self, text: bytes) -> None:
        self.text = text

    @cached_property
    def _ends(self) -> np.ndarray:
        ends = np.flatnonzero(np.frombuffer(self.text, dtype=np.uint8) == ord("\n"))
        return ends if not self.text or self.text.endswith(b"\n") else np.append(ends, len(self.text))

    def __len__(self) -> int:
        return int(self._ends.size)

    def span(self, number: int) -> tuple[int, int]:
        """First byte of a line and the one past its last, the line feed left out.

        Raises
        ------
        IndexError
            No such line.
        """
        if not 0 <= number < len(self):
            raise IndexError(f"no line {number} in {len(self)}")
        return int(self._ends[number - 1]) + 1 if number else 0, int(self._ends[number])

    def get(self, number: int) -> bytes:
        """Return a line without its line feed; raises as ``span`` does."""
        return self.text[slice(*self.span(number))]
