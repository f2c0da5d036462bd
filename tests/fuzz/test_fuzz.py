import pytest

from tests.fuzz.fuzzing import cases
from tests.length import length

pytestmark = pytest.mark.long

COUNTS = length(
    {"runs": 40, "disclosures": 40, "transactions": 200, "bundles": 40, "seats": 60, "proof_files": 500, "policies": 500},
    {"runs": 120, "disclosures": 120, "transactions": 600, "bundles": 120, "seats": 200, "proof_files": 500, "policies": 500},
)


@pytest.mark.parametrize("kind", COUNTS)
def test_verifiers_say_the_same_of_seeded_forgeries(kind, tmp_path):
    assert {fault for fault in cases(kind, 1, COUNTS[kind], tmp_path) if fault} == set()
