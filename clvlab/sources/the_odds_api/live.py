"""The Odds API v4, polled: every answer is one message, and every poll without a readable answer is a gap.

A poll costs markets times regions in credits. Headers state the credits left; the feed stops before it spends a reserve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic

import httpx2
import orjson

from clvlab.errors import FeedError
from clvlab.packs.manifest import Fixture
from clvlab.sources.capture.connection import (
    RefusedAnswer,
    base_url,
    client_of,
    error_text,
    is_passing,
    provenance_at,
    refusal,
    result_until,
    secret,
)
from clvlab.sources.capture.feed import Cut, FeedMessage, GapCause, Health, Item, Resumption, Stop, now_ms
from clvlab.sources.capture.peer import Retry
from clvlab.sources.the_odds_api.messages import fixture_of

URL = "https://api.the-odds-api.com"
_HISTORY_FACTOR = 10
_WRONG_KEY = "The Odds API refuses the key: see CLVLAB_THE_ODDS_API_KEY"


def backfill_credits(from_ts_ms: int, to_ts_ms: int, every_s: int, regions: Sequence[str], markets: Sequence[str]) -> int:
    """Return the cost of past snapshots in credits: ten times markets times regions for each. No request is made.

    Examples
    --------
    >>> backfill_credits(0, 86_400_000, 3600, ["eu", "uk"], ["h2h"])
    500
    """
    snapshots = (to_ts_ms - from_ts_ms) // (every_s * 1000) + 1
    return max(0, snapshots) * _HISTORY_FACTOR * len(regions) * len(markets)


class TheOddsApiFeed:
    """The odds of a sport, polled; ``FeedSettings`` describes the parameters; the waits are those between two tries.

    Raises
    ------
    FeedError
        A setting is not valid.
    """

    name = "the-odds-api"

    def __init__(
        self,
        *,
        key: str,
        sport: str,
        regions: str = "eu",
        markets: str = "h2h",
        interval_s: float = 60.0,
        reserve: int = 0,
        url: str = URL,
        timeout_s: float = 15.0,
        first_wait_s: float = 1.0,
        most_wait_s: float = 60.0,
    ) -> None:
        self._url = base_url(url, "CLVLAB_THE_ODDS_API_URL")
        self._key = secret(key, "CLVLAB_THE_ODDS_API_KEY")
        self._sport, self._regions, self._markets = sport, _words(regions), _words(markets)
        if not sport or "/" in sport or not self._regions or not self._markets or interval_s < 0:
            raise FeedError("CLVLAB_THE_ODDS_API_SPORT, _REGIONS and _MARKETS must be named, and _INTERVAL_S not be negative")
        self._interval_s, self._reserve, self._timeout_s = interval_s, reserve, timeout_s
        self._waits = (first_wait_s, most_wait_s)
        self.provenance = provenance_at(self.name, self._url)
        self.health = Health()

    @property
    def cost(self) -> int:
        """Credits per poll."""
        return len(self._regions) * len(self._markets)

    def fixtures(self) -> Sequence[Fixture]:
        """Return the events of the sport by kickoff; the request is free."""
        with self._client() as client:
            try:
                return self._events(client)
            except (httpx2.HTTPError, RefusedAnswer) as error:
                raise FeedError(f"The Odds API can't be asked, see CLVLAB_THE_ODDS_API_URL: {error_text(error)}") from None

    def listen(self, stop: Stop, fixture_ids: Sequence[int] = (), after: str | None = None) -> Iterator[Item]:
        """Return every answer that differs from the one before, see ``Feed``; missed answers are not sent again."""
        owed, heard_ms, etag = after is not None, 0, ""
        retry = Retry(self.health, *self._waits)
        params: dict[str, str] | None = None
        with self._client() as client:
            while not stop.is_set:
                started = monotonic()
                try:
                    if params is None:
                        params = result_until(lambda: self._params(client, fixture_ids), stop)
                        continue  # the credits left are known now
                    self._check_reserve()
                    answer = result_until(self._poll(client, params, "" if owed else etag), stop)
                    if answer is None:
                        break
                    self._check(answer)
                    if answer.status_code == httpx2.codes.OK and not _is_list(answer.content):
                        heard_ms = heard_ms or now_ms()
                        yield FeedMessage(answer.content, now_ms())  # kept; the odds are then unknown
                        raise httpx2.DecodingError("no list of events")
                except (httpx2.HTTPError, RefusedAnswer) as error:
                    retry.note_failure(error_text(error))
                    is_quota = isinstance(error, RefusedAnswer) and error.status == httpx2.codes.TOO_MANY_REQUESTS
                    if heard_ms and not owed:
                        owed = True
                        yield Cut(GapCause.QUOTA if is_quota else GapCause.CUT, heard_ms)
                    retry.wait(stop, error.retry_after_s if isinstance(error, RefusedAnswer) else 0.0)
                    continue
                retry.reset()
                heard_ms = now_ms()
                self.health.connected, self.health.heard_ts_ms = True, heard_ms
                self.health.retries, self.health.error = 0, None
                if owed:
                    owed = False
                    yield Resumption(heard_ms)
                if answer.status_code == httpx2.codes.OK:
                    etag = answer.headers.get("etag", "")
                    message = FeedMessage(answer.content, heard_ms)
                    self.health.note(message)
                    yield message
                stop.wait(max(0.0, started + self._interval_s - monotonic()))
        self.health.connected = False

    def _poll(self, client: httpx2.Client, params: dict[str, str], etag: str) -> Callable[[], httpx2.Response]:
        """Return a request for the odds, which are not sent again if unchanged since ``etag``."""
        headers = {"If-None-Match": etag} if etag else {}
        return lambda: client.get(f"/v4/sports/{self._sport}/odds", params=params, headers=headers)

    def _params(self, client: httpx2.Client, fixture_ids: Sequence[int]) -> dict[str, str]:
        """Return the parameters of a poll, after a free request that shows key, sport and quota."""
        events = {event.fixture_id: str(event.source_id) for event in self._events(client)}
        unknown = sorted(set(fixture_ids) - events.keys())
        if unknown:
            raise FeedError(f"The Odds API has no fixture {unknown[0]} of {self._sport}: see CLVLAB_THE_ODDS_API_SPORT")
        params = {"regions": ",".join(self._regions), "markets": ",".join(self._markets)}
        chosen = {"eventIds": ",".join(events[number] for number in fixture_ids)} if fixture_ids else {}
        return params | {"oddsFormat": "decimal", "dateFormat": "iso"} | chosen

    def _events(self, client: httpx2.Client) -> list[Fixture]:
        response = client.get(f"/v4/sports/{self._sport}/events", params={"dateFormat": "iso"})
        self._check(response)
        try:
            found = [fixture_of(event) for event in orjson.loads(response.content)]
        except (ValueError, KeyError, TypeError) as error:
            raise FeedError(f"The Odds API lists no events, see CLVLAB_THE_ODDS_API_URL: {type(error).__name__}") from error
        return sorted(found, key=lambda one: (one.kickoff_ts_ms or 0, one.fixture_id))

    def _check_reserve(self) -> None:
        left = self.health.quota_left
        if left is not None and left - self.cost < self._reserve:
            raise FeedError(
                f"{left} credits are left, a poll costs {self.cost}, and {self._reserve} are kept in reserve: "
                "see CLVLAB_THE_ODDS_API_RESERVE"
            )

    def _check(self, response: httpx2.Response) -> None:
        """Record the quota, and refuse an answer that is an error."""
        left = response.headers.get("x-requests-remaining", "").partition(".")[0]
        if left.removeprefix("-").isdecimal():
            self.health.quota_left = int(left)
        status = response.status_code
        if status in (httpx2.codes.OK, httpx2.codes.NOT_MODIFIED):
            return
        if status == httpx2.codes.UNAUTHORIZED:
            spent = b"OUT_OF_USAGE_CREDITS" in response.content
            raise FeedError("nothing is left of what CLVLAB_THE_ODDS_API_KEY paid for" if spent else _WRONG_KEY)
        if is_passing(status):
            raise refusal(response)
        raise FeedError(
            f"The Odds API answered {status}: see CLVLAB_THE_ODDS_API_SPORT, CLVLAB_THE_ODDS_API_REGIONS and "
            "CLVLAB_THE_ODDS_API_MARKETS"
        )

    def _client(self) -> httpx2.Client:
        # A client logs the addresses of its requests, so the transport adds the key after that.
        return client_of(self._url, base_url=self._url, timeout=self._timeout_s, transport=_WithKey(self._key))


class _WithKey(httpx2.HTTPTransport):
    """Sends requests with the key in their address, as the provider wants it."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url.copy_merge_params({"apiKey": self._key})
        return super().handle_request(
            httpx2.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions)
        )


def _is_list(content: bytes) -> bool:
    try:
        return isinstance(orjson.loads(content), list)
    except orjson.JSONDecodeError:
        return False


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())
