import pytest

from clvlab.errors import PolicyError
from clvlab.law.policy import PolicyEnvelope

SAFE = 2**53 - 1
SECONDS = SAFE // 1000
BOUNDS = {
    "max_stake": (0, SAFE),
    "max_exposure_per_market": (0, SAFE),
    "max_exposure_per_fixture": (0, SAFE),
    "max_orders": (0, SAFE),
    "cooldown_s": (0, SECONDS),
    "warmup_ticks": (0, SAFE),
    "max_quote_age_s": (0, SECONDS),
    "max_slippage_bps": (0, 10_000),
    "min_edge_bps": (-10_000, SAFE),
    "min_prob_bps": (0, 9_999),
    "max_prob_bps": (1, 10_000),
}


@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items())
def test_limit_holds_at_its_bounds_and_is_refused_beyond_them(name, bounds):
    low, high = bounds

    assert all(PolicyEnvelope(**{name: value}).payload(())[name] == value for value in bounds)
    for value in (low - 1, high + 1):
        with pytest.raises(PolicyError, match=name):
            PolicyEnvelope(**{name: value})


@pytest.mark.parametrize("value", [True, 1.0, "1", float("nan"), [1]])
@pytest.mark.parametrize("name", BOUNDS)
def test_limit_that_is_no_integer_is_refused(name, value):
    with pytest.raises(PolicyError, match=name):
        PolicyEnvelope(**{name: value})


@pytest.mark.parametrize(
    "name", sorted(BOUNDS.keys() - {"max_exposure_per_market", "max_exposure_per_fixture", "max_orders", "min_edge_bps"})
)
def test_limit_that_can_not_be_off_is_refused_as_null(name):
    with pytest.raises(PolicyError, match=name):
        PolicyEnvelope(**{name: None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution_mode": "live"},
        {"execution_mode": None},
        {"market_allowlist": "1X2"},
        {"market_allowlist": [1]},
        {"venue_allowlist": None},
        {"venue_allowlist": ["paper"] * 1001},
        {"require_quote": 1},
        {"kill_switch": None},
        {"min_prob_bps": 5000, "max_prob_bps": 4999},
    ],
    ids=str,
)
def test_wrong_value_is_named(wrong):
    with pytest.raises(PolicyError, match=next(iter(wrong))):
        PolicyEnvelope(**wrong)


def test_envelope_reads_back_as_it_was_sealed():
    envelope = PolicyEnvelope(("1X2",), max_orders=3, min_edge_bps=-5, kill_switch=True)

    assert PolicyEnvelope.sealed(envelope.payload(("",))) == envelope


def test_allowlist_of_the_window_stands_in():
    assert PolicyEnvelope().payload(("1X2", "OU"))["market_allowlist"] == ["1X2", "OU"]
    assert PolicyEnvelope(()).payload(("1X2",))["market_allowlist"] == []


@pytest.mark.parametrize(
    "change", [{"schema": "clvlab-policy/2"}, {"market_allowlist": None}, {"receipt": 1}, {"max_stake": -1}], ids=str
)
def test_sealed_envelope_of_another_form_is_refused(change):
    with pytest.raises(PolicyError):
        PolicyEnvelope.sealed(PolicyEnvelope().payload(()) | change)
