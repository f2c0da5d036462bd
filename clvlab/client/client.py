"""A method per endpoint; each gives the JSON of the answer, or raises the problem."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import httpx2

from clvlab.client.owning import Owning
from clvlab.client.proving import Proving
from clvlab.client.replaying import Replaying


class Client(Owning, Replaying, Proving):
    r"""Talks to one clvlab service; use it as a context manager, or close it.

    Parameters
    ----------
    base_url
        Where the service is, such as ``http://127.0.0.1:8000``.
    token
        Bearer token for what an owner may do; without one, what is public.
    timeout_s
        How long to wait for an answer; starting a large competition takes as long as it runs.

    Raises
    ------
    ApiError
        By every method: the service refused, with its problem details.
    httpx2.HTTPError
        By every method: the service can't be reached, or did not answer in time.

    Examples
    --------
    With the ``url`` of a service that runs as ``clvlab serve --dev``, and a ``token`` of ``clvlab dev-token``. What anyone may
    ask:

    >>> import clvlab as cl
    >>> client = cl.Client(url, token)
    >>> [pack["pack_id"] for pack in client.packs()["packs"]], client.pack("starter")["provenance"]
    (['season', 'starter'], 'synthetic-clvlab')
    >>> made = client.backtest("starter", 90000000)
    >>> client.report(made["backtest_id"])["n_fixtures"], len(client.backtests(limit=1)["backtests"])
    (1, 1)
    >>> run_id = made["run_id"]
    >>> client.run(run_id)["checks"]["manifest_bound"], client.verify(run_id)["verified"], len(client.runs(limit=1)["runs"])
    ('pass', True, 1)
    >>> client.decision(run_id, 1)["agent_id"], len(client.demo()["leaderboard"])
    ('baseline', 2)
    >>> client.evidence(run_id).count(b"\n") > client.scores(run_id).count(b"\n"), client.manifest(run_id)[:15]
    (True, b'{"commit_index"')
    >>> "baseline (anonymous)" in {row["agent_id"] for row in client.leaderboard()["rows"]}
    True
    >>> client.decisions(run_id, limit=2, sort="-clv")["total"] == client.decision_frame(run_id).height
    True
    >>> len(client.bundle(run_id)) > len(client.evidence(run_id)) / 20
    True
    >>> page = client.fixtures("starter", limit=2)
    >>> page["total"] == client.fixture_frame("starter").height, len(page["fixtures"])
    (True, 2)
    >>> [one["strategy"] for one in client.strategies()["strategies"]][0], client.strategy("llm")["strategy"]
    ('baseline', 'llm')

    Any template over a whole pack; what takes more than a second goes on while the caller does something else:

    >>> whole = client.backtest_pack("starter", strategy="cumulative-drift", params={"stake": 50})
    >>> report = client.wait_for_report(whole["backtest_id"])
    >>> report["n_fixtures"], report["statistics"]["clv_bps"]["n_clusters"], "<svg" in client.tear_sheet(whole["backtest_id"])
    (12, 12, True)
    >>> client.progress(report["run_id"])["status"], [told["status"] for told in client.follow(report["run_id"])]
    ('sealed', ['sealed'])
    >>> client.cancel_backtest(whole["backtest_id"], "a key of nobody")
    Traceback (most recent call last):
    clvlab.client.problems.ApiError: 409 Conflict: backtest ... is sealed: there is nothing to cancel

    What its owner may do with a competition, and with an instance:

    >>> config = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "pack_id": "starter"}
    >>> ours = client.create_competition(config, roster_size=2)["competition_id"]
    >>> client.open_competition(ours)["status"], client.register(ours, "b", "baseline")["proof_mode"]
    ('open', 'reproducible')
    >>> client.register(ours, "..", "baseline")["agent_id"], client.withdraw(ours, "..")
    ('..', None)
    >>> client.delete_competition(client.create_competition(config, roster_size=2)["competition_id"])
    >>> client.start(ours)["status"], client.complete_competition(ours)["status"]
    ('finalized', 'completed')
    >>> client.competition(ours)["leaderboard"][0]["agent_id"]
    'b'
    >>> ours in [one["competition_id"] for one in client.competitions("COMPLETED")]
    True
    >>> client.events(ours, -1)[0]["kind"], next(client.stream(ours))["kind"], client.agent_errors(ours)
    ('COMPETITION_STARTED', 'COMPETITION_STARTED', [])
    >>> deployed = client.deploy(strategy="baseline", source_mode="replay", pack_id="starter")["instance_id"]
    >>> client.instance(deployed)["template"], "events" in client.runtime_events(deployed, limit=1)
    ('baseline', True)
    >>> theirs = client.create_competition(config, roster_size=2)["competition_id"]
    >>> begun = client.register(theirs, "b", "baseline") and client.start_async(theirs)
    >>> [told["status"] for told in client.follow(begun["run_id"])][-1]
    'sealed'
    >>> client.cancel_competition(theirs)
    Traceback (most recent call last):
    clvlab.client.problems.ApiError: 409 Conflict: competition ... is finalized: there is nothing to cancel
    >>> client.me()["competitions"] > 1, len(client.instances(strategy="baseline")["instances"]) > 0
    (True, True)

    Packs of one's own, where the operator takes uploads, and ``pack.zip`` is one:

    >>> kept = client.upload_pack("pack.zip")["pack_id"]
    >>> [own["pack_id"] for own in client.uploaded_packs()["packs"]] == [kept], client.uploaded_pack(kept)["admitted"]
    (True, False)
    >>> client.delete_uploaded_pack(kept)
    >>> client.close()
    """

    def __init__(self, base_url: str, token: str | None = None, *, timeout_s: float = 120) -> None:
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx2.Client(base_url=base_url, headers=self._headers, timeout=timeout_s)

    def __repr__(self) -> str:
        who = "with a token" if self._headers else "without a token"
        return f"<Client of {self._http.base_url} {who}: try .leaderboard(), .packs(), .demo()>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
