import pytest

from tests.fuzz.fuzzing import cases

pytestmark = pytest.mark.long

COUNTS = {"runs": 120, "disclosures": 120, "transactions": 600, "bundles": 120}


@pytest.mark.parametrize("kind", COUNTS)
def test_verifiers_say_the_same_of_seeded_forgeries(kind, tmp_path):
    assert {fault for fault in cases(kind, 1, COUNTS[kind], tmp_path) if fault} == set()
