"""What a laboratory has: packs, runs, standings, and SQL over them."""

from __future__ import annotations

from types import TracebackType
from typing import NoReturn, Self

from clvlab.errors import PageError, QueryError, UnknownRunError, UnsupportedError
from clvlab.lab.laboratory.listing import Listing
from clvlab.lab.laboratory.place import Place
from clvlab.lab.results.result import Result
from clvlab.lab.results.run import Run, VerificationResult
from clvlab.naming import names_checked


class Records:
    """The verbs of a laboratory that only read."""

    def __init__(self, place: Place) -> None:
        self._open: Place | None = place

    @property
    def _place(self) -> Place:
        if self._open is None:
            raise UnsupportedError("this laboratory was closed: open it again with clvlab.Lab(...)")
        return self._open

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("a laboratory stays in its process: open it there with clvlab.Lab(...), and send its results")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @names_checked
    def close(self) -> None:
        """Release the file or the connections; what was in memory is gone.

        Examples
        --------
        >>> import clvlab as cl
        >>> with cl.Lab() as lab:
        ...     lab.runs().frame.height
        0
        """
        if self._open is not None:
            self._open.close()
        self._open = None

    def __repr__(self) -> str:
        if self._open is None:
            return "<Lab: closed; next: clvlab.Lab(...)>"
        return f"<Lab: {self._place.where}; next: .packs(), .backtest(pack, agent), .runs(), .leaderboard()>"

    @names_checked
    def packs(self) -> Listing:
        """List the packs that can be named here: imported ones and those that come with clvlab, or those of the service.

        Examples
        --------
        >>> import clvlab as cl
        >>> cl.Lab().packs().frame.select("pack_id", "fixtures").rows()
        [('season', 300), ('starter', 12)]
        """
        return self._place.packs()

    @names_checked
    def runs(self, limit: int | None = 50) -> Listing:
        """List runs, newest first: at most ``limit`` of them, or all.

        Raises
        ------
        PageError
            A limit that is no number of runs.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.backtest("starter")
        >>> lab.runs().frame.select("kind", "status", "agents").rows()
        [('backtest', 'sealed', 'baseline')]
        """
        if limit is not None and (type(limit) is not int or limit < 0):
            raise PageError(f"a limit is a number of runs, or None for all, not {limit!r:.80}")
        return self._place.runs(limit)

    @names_checked
    def open_run(self, run_id: str) -> Result:
        """Read a sealed run: its bytes, and all that they say.

        Raises
        ------
        UnknownRunError
            Unknown, or not sealed.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> run_id = lab.backtest("starter", "cumulative-drift").run.run_id
        >>> lab.open_run(run_id).tear_sheet(resamples=100, draws=10).clv.n
        128
        """
        if not isinstance(run_id, str):
            raise UnknownRunError(f"a run is named by its id, not {run_id!r:.80}")
        return self._place.open_run(run_id)

    @names_checked
    def verify(self, run: str | Result | Run) -> VerificationResult:
        """Have the proof of a kept run recomputed from the stored bytes, here or by the service.

        A service also asks the chain about an anchor; to trust nobody, ``open_run(run_id).verify()`` recomputes here.

        Raises
        ------
        UnknownRunError

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> lab.verify(lab.backtest("starter")).verified
        True
        """
        if isinstance(run, Run):
            run = run.run_id
        if not isinstance(run, str | Result):
            raise UnknownRunError(f"a run is named by its id, or is one of this laboratory, not {run!r:.80}")
        return self._place.verify(run if isinstance(run, str) else run.run.run_id)

    @names_checked
    def leaderboard(self) -> Listing:
        """Rank agents by mean CLV, in bps of probability, pooled over all their runs here.

        Those that can't hold the past come first, whatever their rank: see ``hindsight_possible``.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.compete("starter", ["baseline", "cumulative-drift"])
        >>> lab.leaderboard().frame.select("rank", "agent_id").rows()
        [(1, 'baseline'), (2, 'cumulative-drift')]
        """
        return self._place.leaderboard()

    @names_checked
    def sql(self, statement: str) -> Listing:
        """Answer a SQL statement, in DuckDB's dialect, over what is here.

        The tables are ``runs``; ``agents``, ``scores`` and ``decisions`` of all sealed runs, each with its ``run_id``, columns
        and units as in the documentation of the law; ``packs``; and, but at a service, ``fixtures``, ``ticks`` and
        ``results``, each with its ``pack_id``. Files and networks are out of reach.

        Raises
        ------
        QueryError
            Anything but one SELECT, or one that can't be answered.

        Examples
        --------
        >>> import clvlab as cl
        >>> lab = cl.Lab()
        >>> _ = lab.backtest("starter", "cumulative-drift")
        >>> lab.sql("select reason, count(*) as n from scores group by reason order by n desc").frame.rows()
        [('scored', 129), ('closing_suspended', 6), ('pending_horizon', 1)]
        """
        if not isinstance(statement, str):
            raise QueryError(f"a SQL statement is a text, not {statement!r:.80}")
        from clvlab.sql import query  # loads a database

        return Listing(f"Answer of {self._place.where}", query(statement, self._place.tables()), ".frame")
