"""The cuts that are open where a capture is written, so that what ends one of them does not end the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from clvlab.feeds.feed import Cut, GapCause, Resumed

_OWN = (GapCause.RESTART, GapCause.BACKLOG)


@dataclass
class OpenCuts:
    """Cuts of the recorder and of its feed.

    A feed knows nothing of what the recorder missed: its first message ends that. Its own cuts it ends itself. Readers hold
    every open cut for ended by a ``Resumed``, so those that go on are written anew after it.

    Attributes
    ----------
    own
        Whether the recorder's is open.
    """

    own: bool = False
    _feed: list[Cut] = field(default_factory=list)

    def cut(self, cut: Cut) -> None:
        """Take note of a cut; the recorder listens anew after its own, so that those of the feed are over."""
        if cut.cause in _OWN:
            self.own, self._feed = True, []
        else:
            self._feed.append(cut)

    def resumed(self) -> None:
        """Take note that messages come again."""
        self.own, self._feed = False, []

    def before_message(self, at_ms: int) -> list[Cut | Resumed]:
        """Return what has to stand before a message that came then."""
        if not self.own:
            return []
        self.own, self._feed = False, [Cut(cut.cause, at_ms, cut.markets, cut.resumable) for cut in self._feed]
        return [Resumed(at_ms), *self._feed]

    def in_place_of_message(self, at_ms: int) -> list[Cut | Resumed]:
        """Return what stands for a message that is too long; where another cut is open, it ends with that one."""
        cut = Cut(GapCause.OVERSIZE, at_ms)
        return [cut] if self._feed else [cut, Resumed(at_ms)]
