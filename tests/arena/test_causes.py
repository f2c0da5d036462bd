import pytest

from clvlab.errors import AgentError, PackReplayError
from clvlab.runs.progress import cause_of, message_of

PATHS = [
    "/srv/packs/starter/ticks.parquet",
    "'/srv/my packs/ticks.parquet'",
    '"/srv/my packs"',
    "/etc",
    "~/packs/ticks.parquet",
    r"C:\packs\ticks.parquet",
    r"'C:\my packs\ticks.parquet'",
    r"\\host\share\ticks.parquet",
    "file:///srv/packs/ticks.parquet",
    "(/srv/packs/ticks.parquet)",
    "../../srv/packs/ticks.parquet",
    "PosixPath('/srv/packs')",
    "/srv/packs/ticks.parquet:12:",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_cause_names_no_path_of_the_server(path):
    shown = message_of(OSError(f"can't read {path} in pack 'starter'"))

    assert not any(part in shown for part in ("srv", "packs\\", "etc", "share", "ticks"))
    assert shown.startswith("can't read ")
    assert shown.endswith("in pack 'starter'")


@pytest.mark.parametrize(
    "text",
    ["market 'OU|line=2.5/3' has no side 'over/under'", "3/4 of https://example.org/a/b", "odds of 5/2, and/or none", "1 / 2"],
)
def test_a_slash_makes_no_path(text):
    assert message_of(AgentError(text)) == text


def test_a_cause_is_a_class_and_one_line_of_at_most_300_characters():
    cause = cause_of(AgentError("é" * 400 + "\nsecond line"))

    assert cause.startswith("AgentError: éé")
    assert len(cause) == len("AgentError: ") + 300
    assert "second" not in cause
    assert message_of("first\r\nsecond") == "first"
    assert message_of("a lone \ud800") == "a lone \\ud800"
    assert cause_of(PackReplayError("pack 'a' can't be replayed")) == "PackReplayError: pack 'a' can't be replayed"
    assert cause_of(AgentError("")) == "AgentError"


def test_of_an_error_of_another_library_the_class_alone_is_told():
    assert cause_of(ConnectionError("no route to db.internal as user clvlab")) == "ConnectionError"
