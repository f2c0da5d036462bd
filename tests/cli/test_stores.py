"""Commands over an existing store: a misspelt name is an error, and makes no store."""

import pytest

from tests.commands import clvlab

OF_A_STORE = [
    "arena competitions --store {name}",
    "service release vault --database-url sqlite:///{name}",
    "service uploads --uploads . --database-url sqlite:///{name}",
    "service admit-upload did:x:me mine --uploads . --catalog . --database-url sqlite:///{name}",
]


@pytest.mark.parametrize("command", OF_A_STORE)
def test_a_misspelt_store_is_an_error_and_makes_no_file(command, tmp_path):
    code, _, errors = clvlab(tmp_path, *command.format(name="misspelt.db").split())

    assert (code, errors.strip()) == (2, "error: no database at 'misspelt.db'")
    assert list(tmp_path.iterdir()) == []
