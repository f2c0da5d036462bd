"""Backtests, the packs that they replay, and the templates that decide."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import polars as pl

from clvlab.answers.backtests import BacktestListResponse, BacktestReport, BacktestRunResponse, BacktestState
from clvlab.answers.packs import PackFixturesResponse, ReplayPackInfo, ReplayPackListResponse
from clvlab.answers.strategies import StrategyInfo, StrategyListResponse
from clvlab.answers.uploads import UploadedPack, UploadedPackList
from clvlab.client.asking import Asking, given, path_of
from clvlab.client.problems import raise_for_problem

_PIECE = 1 << 20
_POLL_S = 0.2


class Replaying(Asking):
    """What is replayed, by whom, and what came of it."""

    def backtest(
        self,
        pack_id: str,
        fixture_id: int,
        *,
        window_id: str = "full",
        market_allowlist: list[str] | None = None,
        **fields: Any,
    ) -> BacktestRunResponse:
        """Backtest the agent ``baseline`` over a fixture; further fields of BacktestRunRequest by name."""
        markets = [""] if market_allowlist is None else market_allowlist
        body = {"pack_id": pack_id, "fixture_id": fixture_id, "window_id": window_id, "market_allowlist": markets}
        return self._post(BacktestRunResponse, "backtests", body=body | fields)

    def backtest_pack(
        self,
        pack_id: str,
        fixture_ids: Sequence[int] | None = None,
        *,
        strategy: str = "baseline",
        params: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> BacktestRunResponse | BacktestState:
        """Backtest a template over several fixtures of a pack, or all; further fields of PackBacktestRequest by name.

        What takes more than a second goes on without the caller: the answer then has a ``status``, and a ``key`` by which
        ``cancel_backtest`` withdraws the request. ``wait_for_report`` returns the report in either case.
        """
        own = {"strategy": strategy, "params": dict(params or {}), "policy": None if policy is None else dict(policy)}
        body = {"pack_id": pack_id, "fixture_ids": None if fixture_ids is None else list(fixture_ids)} | own | fields
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return cast("BacktestRunResponse | BacktestState", self._post(dict, "backtests", body=body, headers=headers))

    def wait_for_report(self, backtest_id: str) -> BacktestReport:
        """Wait until a backtest is sealed, and return its report.

        Raises
        ------
        ApiError
            It is unknown, failed, or was cancelled: the problem says which.
        """
        while True:
            found = self._get(dict, "backtests", backtest_id)
            if "checks" in found:
                return cast("BacktestReport", found)
            time.sleep(_POLL_S)

    def cancel_backtest(self, backtest_id: str, key: str) -> BacktestState:
        """Withdraw a request for a backtest by its key; what nobody else asked for is cancelled."""
        return self._post(BacktestState, "backtests", backtest_id, "cancel", headers={"Idempotency-Key": key})

    def backtests(self, cursor: str | None = None, limit: int = 50) -> BacktestListResponse:
        """List stored backtests, newest first."""
        return self._get(BacktestListResponse, "backtests", cursor=cursor, limit=limit)

    def report(self, backtest_id: str) -> BacktestReport:
        """Read the report of a backtest."""
        return self._get(BacktestReport, "backtests", backtest_id)

    def tear_sheet(self, backtest_id: str) -> str:
        """Read the tear sheet of a backtest: one page of HTML, without scripts or requests."""
        return self._bytes("backtests", backtest_id, "tear-sheet").decode()

    def packs(self) -> ReplayPackListResponse:
        """List the packs of the catalog."""
        return self._get(ReplayPackListResponse, "replay-packs")

    def pack(self, pack_id: str) -> ReplayPackInfo:
        """Read one pack."""
        return self._get(ReplayPackInfo, "replay-packs", pack_id)

    def fixtures(self, pack_id: str, cursor: str | None = None, limit: int = 100, **filters: Any) -> PackFixturesResponse:
        """List fixtures of a pack, a page of them; of a ``market`` (a prefix), or by kickoff ``after`` and ``before``."""
        return self._get(PackFixturesResponse, "replay-packs", pack_id, "fixtures", cursor=cursor, limit=limit, **filters)

    def fixture_frame(self, pack_id: str, **filters: Any) -> pl.DataFrame:
        """Return all fixtures of a pack that match the same filters."""
        return self._frame("replay-packs", pack_id, "fixtures", **filters)

    def strategies(self) -> StrategyListResponse:
        """List the strategy templates."""
        return self._get(StrategyListResponse, "strategies")

    def strategy(self, name: str) -> StrategyInfo:
        """Read what a template does, and the JSON Schema of its parameters."""
        return self._get(StrategyInfo, "strategies", name)

    def upload_pack(self, path: str | Path, **about: Any) -> UploadedPack:
        """Upload an archive of a pack; or, with ``source``, ``pack_id`` and options of the import, a file of odds."""

        def pieces() -> Iterator[bytes]:
            with Path(path).open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece

        headers = {"Content-Type": "application/octet-stream"}
        response = self._http.post(path_of("me", "packs"), params=given(about), content=pieces(), headers=headers)
        raise_for_problem(response)
        return cast("UploadedPack", response.json())

    def uploaded_packs(self) -> UploadedPackList:
        """List the caller's own packs."""
        return self._get(UploadedPackList, "me", "packs")

    def uploaded_pack(self, pack_id: str) -> UploadedPack:
        """Read one of the caller's own packs."""
        return self._get(UploadedPack, "me", "packs", pack_id)

    def delete_uploaded_pack(self, pack_id: str) -> None:
        """Delete one of the caller's own packs."""
        self._delete("me", "packs", pack_id)
