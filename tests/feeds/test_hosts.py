import pytest

from clvlab.feeds.hosts import is_local, provenance_of


@pytest.mark.parametrize("host", ["localhost", "feed.localhost", "127.0.0.1", "127.8.9.1", "127.1", "::1", "0.0.0.0", "::"])
def test_what_this_machine_sends_is_nobodys_odds(host):
    assert is_local(host)
    assert provenance_of("kalshi", "api.example", host) == "synthetic-devfeed"


@pytest.mark.parametrize("host", ["txline.example", "localhost.example", "10.0.0.1", "8.8.8.8", "2001:db8::1", "127.example"])
def test_other_hosts_are_providers(host):
    assert not is_local(host)
    assert provenance_of("txline", host) == "genuine-txline"
