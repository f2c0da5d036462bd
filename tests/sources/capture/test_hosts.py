import socket

import pytest

from clvlab.errors import FeedError
from clvlab.sources.betfair.live import BetfairFeed
from clvlab.sources.capture.feed import Stop
from clvlab.sources.capture.peer import check_peer, is_local, provenance_of
from clvlab.sources.devfeeds.kalshi import KalshiServer
from clvlab.sources.devfeeds.polymarket import PolymarketServer
from clvlab.sources.devfeeds.the_odds_api import TheOddsApiServer
from clvlab.sources.devfeeds.txline import TxLineServer
from clvlab.sources.kalshi.live import KalshiFeed
from clvlab.sources.polymarket.live import PolymarketFeed
from clvlab.sources.the_odds_api.live import TheOddsApiFeed
from clvlab.sources.txline.live import TxLineFeed

HERE = [
    "localhost", "feed.localhost", "127.0.0.1", "127.8.9.1", "127.1", "::1", "0.0.0.0", "::",
    "LOCALHOST", "localhost.", "Feed.Localhost.", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "0x7f000001",
]  # fmt: skip


@pytest.mark.parametrize("host", HERE)
def test_what_this_machine_sends_is_nobodys_odds(host):
    assert is_local(host)
    assert provenance_of("kalshi", "api.example", host) == "synthetic-devfeed"


@pytest.mark.parametrize(
    "host",
    [
        "txline.example", "localhost.example", "10.0.0.1", "8.8.8.8", "2001:db8::1", "127.example", "::ffff:8.8.8.8",
        "txline.evil.example", "txline.txodds.com.example", "a.txline.txodds.com", "txodds.com", "txline.txodds.com.",
        "api.elections.kalshi.com",
    ],
)  # fmt: skip
def test_other_hosts_are_no_provider(host):
    assert not is_local(host)
    assert provenance_of("txline", host) == provenance_of("txline", "txline.txodds.com", host) == "imported-txline"


def test_a_host_that_shows_no_certificate_is_no_provider():
    plain = TxLineFeed(jwt="j", api_token="t", url="http://txline.txodds.com")

    assert plain.provenance == "imported-txline"


def test_a_feed_that_is_not_listed_has_no_provider():
    assert provenance_of("other", "txline.txodds.com") == "imported-other"


@pytest.fixture
def provider(monkeypatch):
    """A name of a provider that leads to this machine."""
    found = socket.getaddrinfo

    def led(host, *rest, **options):
        name = host.decode() if isinstance(host, bytes) else host
        return found("127.0.0.1" if name == "provider.example" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", led)
    return lambda url: url.replace("127.0.0.1", "provider.example")


def test_a_name_that_leads_here_is_no_provider(provider, tmp_path):
    with (
        TxLineServer([]) as txline,
        TheOddsApiServer([]) as odds_api,
        KalshiServer.synthetic(messages=5) as kalshi,
        PolymarketServer.synthetic(messages=5) as polymarket,
        socket.create_server(("127.0.0.1", 0)) as betfair,
    ):
        key = kalshi.write_key(tmp_path / "key.pem")
        port = betfair.getsockname()[1]
        feeds = [
            TxLineFeed(jwt="j", api_token="t", url=provider(txline.url)),
            TheOddsApiFeed(key="k", sport="s", url=provider(odds_api.url)),
            KalshiFeed(
                key_id="development", private_key_file=key, event_tickers=list(kalshi.events),
                url=provider(kalshi.url), api_url=provider(kalshi.api_url),
            ),
            PolymarketFeed(
                events=[polymarket.events[0]["slug"]], url=provider(polymarket.url), gamma_url=provider(polymarket.http_url)
            ),
            BetfairFeed(app_key="a", session_token=lambda: "t", host="provider.example", port=port),
        ]  # fmt: skip

        for feed in feeds:
            assert feed.provenance == f"imported-{feed.name}"
            with pytest.raises(FeedError, match=r"'provider\.example' leads to 127\.0\.0\.1, which is this machine"):
                list(feed.listen(Stop()))


def test_a_socket_of_a_name_that_leads_here_is_no_provider(provider):
    with PolymarketServer.synthetic(messages=5) as server:
        feed = PolymarketFeed(events=[server.events[0]["slug"]], url=provider(server.url), gamma_url=server.http_url)

        with pytest.raises(FeedError, match="which is this machine"):
            list(feed.listen(Stop()))


def test_an_address_of_this_machine_that_is_not_loopback_is_no_provider():
    class Connection:
        def getpeername(self):
            return "192.0.2.7", 443

        getsockname = getpeername

    with pytest.raises(FeedError, match=r"leads to 192\.0\.2\.7"):
        check_peer(Connection(), "provider.example")


def test_a_proxy_of_the_environment_makes_up_no_provider(monkeypatch):
    with TxLineServer([]) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.setenv("ALL_PROXY", server.url)
        feed = TxLineFeed(jwt="dev-jwt", api_token="dev-api-token", url="http://provider.invalid", timeout_s=2.0)

        with pytest.raises(FeedError, match="can't be asked for fixtures"):
            feed.fixtures()
