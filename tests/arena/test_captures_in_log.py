"""What a log shows of the segments of a pack, and what it does not."""

import orjson
import pytest

import clvlab as cl
from clvlab.arena.log.captures import log_grade
from clvlab.arena.log.operations import open_log, signed_checkpoint
from clvlab.log.bundles import Trust
from clvlab.log.log import note_segment
from clvlab.log.note import Signer
from clvlab.packs.files import file_sha256
from clvlab.packs.manifest import Grade
from clvlab.packs.verification import verify_pack
from clvlab.sources.capture.records import Header, end_line, message_line, name_of
from clvlab.sources.importer import import_source, pack_capture
from tests.commands import clvlab
from tests.proof.bundles import LOG_KEY
from tests.sources.txline.test_messages import text

TRUST = Trust(logs=(str(LOG_KEY.verifier),))
AT_MS = 1_767_225_600_000
KICKOFF = "2026-01-01T00:01:30Z"  # after the first segment, before the second


def message(number, odds=1.95):
    """Return an answer of a provider, as anybody can write it."""
    at = f"2026-01-01T00:{number:02}:00Z"
    quoted = {"key": "h2h", "last_update": at}
    outcomes = [{"name": name, "price": odds + number / 100} for name in ("Ashford", "Brackley")]
    books = [{"key": f"b{n}", "title": "B", "last_update": at, "markets": [quoted | {"outcomes": outcomes}]} for n in range(5)]
    match = {"id": "e", "sport_key": "s", "commence_time": KICKOFF, "home_team": "Ashford", "away_team": "Brackley"}
    return orjson.dumps([match | {"bookmakers": books}])


@pytest.fixture
def segments(tmp_path):
    """Write two segments by hand, in the name of the provider."""
    written, previous = [], None
    for number in (1, 2):
        path = tmp_path / name_of(number)
        at_ms = AT_MS + number * 60_000
        header = Header("the-odds-api", "genuine-the-odds-api", "cap_1", number, previous)
        answer = message(number)
        path.write_bytes(header.line() + message_line(answer, at_ms, None) + end_line(at_ms))
        previous = file_sha256(path)
        written.append(path)
    return written


@pytest.fixture
def pack(segments, tmp_path):
    pack_capture(segments, tmp_path / "pack")
    return verify_pack(tmp_path / "pack")


def noted(place, segments, *, late_ms=1_000):
    """Enter segments into a log, and return its signed checkpoint."""
    with open_log(str(place), create=True) as log:
        for number, path in enumerate(segments, 1):
            with log.write() as rows:
                note_segment(rows, "cap_1", number, file_sha256(path), AT_MS + number * 60_000 + late_ms)
        return signed_checkpoint(log, LOG_KEY)


def test_segments_that_somebody_wrote_by_hand_are_self_consistent_and_no_more(pack):
    assert pack.is_genuine
    assert pack.grade is Grade.SELF_CONSISTENT


def test_every_segment_in_the_log_is_witnessed_at_the_time_of_its_operators_word(pack, segments, tmp_path):
    note = noted(tmp_path / "log.db", segments, late_ms=86_400_000)

    found = log_grade(pack, str(tmp_path / "log.db"), TRUST, note)

    assert (found.grade, str(found)) == (Grade.WITNESSED, "witnessed since 2026-01-02 00:02:00 UTC")
    assert "by the word of the operator" in found.reasons[0]
    assert "at most 1 day, 0:00:00 after its first message arrived" in found.reasons[0]
    assert "messages from before a kickoff were entered up to 23:59:30 after it" in found.reasons[0]


@pytest.mark.parametrize(("late_days", "said"), [(2, "2 days"), (3653, "3,653 days")])
def test_what_was_entered_long_after_its_messages_is_never_just_witnessed(pack, segments, tmp_path, late_days, said):
    note = noted(tmp_path / "log.db", segments, late_ms=late_days * 86_400_000)
    (tmp_path / "note").write_text(note)

    found = log_grade(pack, str(tmp_path / "log.db"), TRUST, note)
    command = ["packs", "verify", pack.folder, "--log", tmp_path / "log.db", "--checkpoint", tmp_path / "note"]
    code, printed, _ = clvlab(tmp_path, *command, "--key", LOG_KEY.verifier)
    shown = orjson.loads(clvlab(tmp_path, *command, "--key", LOG_KEY.verifier, "--json")[1])

    assert (found.grade, found.late_days) == (Grade.WITNESSED_LATE, late_days)
    assert str(found).startswith("witnessed since 20")
    assert str(found).endswith(f" UTC, {said} after its messages")
    assert (code, f"{found}: by the word" in " ".join(printed.split())) == (1, True)
    assert (shown["grade"], shown["since"], shown["late_days"]) == ("witnessed late", str(found)[16:39], late_days)


def test_a_segment_that_the_log_lacks_is_named(pack, segments, tmp_path):
    note = noted(tmp_path / "log.db", segments[:1])

    found = log_grade(pack, str(tmp_path / "log.db"), TRUST, note)

    assert found.grade is Grade.SELF_CONSISTENT
    assert found.reasons[0].endswith(": 000002.jsonl")


def test_a_segment_that_was_altered_after_its_entry_is_not_in_the_log(segments, tmp_path):
    note = noted(tmp_path / "log.db", segments)
    segments[1].write_bytes(segments[1].read_bytes().replace(message(2), message(2, 2.34)))
    pack_capture(segments, tmp_path / "raised")

    found = log_grade(verify_pack(tmp_path / "raised"), str(tmp_path / "log.db"), TRUST, note)

    assert found.grade is Grade.SELF_CONSISTENT
    assert found.reasons[0].endswith(": 000002.jsonl")


def test_a_log_whose_entries_are_not_those_of_its_checkpoint_shows_nothing(pack, segments, tmp_path):
    note = noted(tmp_path / "real.db", segments[:1])
    noted(tmp_path / "forged.db", segments, late_ms=2_000)

    found = log_grade(pack, str(tmp_path / "forged.db"), TRUST, note)

    assert found.grade is Grade.SELF_CONSISTENT
    assert "do not give the root" in found.reasons[0]


@pytest.mark.parametrize("name", ["another.example/log", LOG_KEY.name])
def test_a_log_of_another_origin_or_key_shows_nothing(pack, segments, tmp_path, name):
    note = noted(tmp_path / "log.db", segments)

    found = log_grade(pack, str(tmp_path / "log.db"), Trust(logs=(str(Signer.new(name).verifier),)), note)

    assert found.grade is Grade.SELF_CONSISTENT
    assert "is not signed by that log" in found.reasons[0]


def test_an_entry_from_before_the_messages_arrived_shows_nothing(pack, segments, tmp_path):
    note = noted(tmp_path / "log.db", segments, late_ms=-1)

    assert log_grade(pack, str(tmp_path / "log.db"), TRUST, note).grade is Grade.SELF_CONSISTENT


def test_a_log_without_a_signed_checkpoint_shows_nothing(pack, segments, tmp_path):
    noted(tmp_path / "log.db", segments)

    assert log_grade(pack, str(tmp_path / "log.db"), TRUST).grade is Grade.SELF_CONSISTENT


def test_the_command_says_the_grade_and_fails_without_all_segments(pack, segments, tmp_path):
    for name, entered in (("whole", segments), ("half", segments[:1])):
        (tmp_path / f"{name}.note").write_text(noted(tmp_path / f"{name}.db", entered))

    def verified(name, *key):
        log = ["--log", tmp_path / f"{name}.db", "--checkpoint", tmp_path / f"{name}.note"]
        return clvlab(tmp_path, "packs", "verify", pack.folder, *log, *key)

    code, said, _ = verified("whole", "--key", LOG_KEY.verifier)
    assert (code, "witnessed since 2026-01-01 00:02:01 UTC: by the word of the operator" in " ".join(said.split())) == (0, True)
    code, said, _ = verified("half", "--key", LOG_KEY.verifier)
    assert (code, "self-consistent: not in the log log.example: 000002.jsonl" in said) == (1, True)
    assert verified("whole")[0] == 2


def test_every_face_of_a_pack_shows_the_grade_beside_its_label(pack, tmp_path):
    opened = cl.open_pack(pack.folder)

    assert "(genuine-the-odds-api, origin self-consistent)" in repr(opened)
    assert "self-consistent" in opened._repr_html_()
    assert "self-consistent" in opened.price_path()._repr_html_()
    assert "self-consistent" in clvlab(tmp_path, "packs", "show", pack.folder)[1]
    assert orjson.loads(clvlab(tmp_path, "packs", "show", pack.folder, "--json")[1])["grade"] == "self-consistent"


def test_a_pack_of_ticks_alone_has_nothing_shown():
    assert cl.open_pack("starter").grade == "not shown"


def test_messages_that_were_imported_and_not_captured_are_in_no_log(segments, tmp_path):
    note = noted(tmp_path / "log.db", segments)
    (tmp_path / "odds.json").write_bytes(text())
    import_source("txline", [tmp_path / "odds.json"], tmp_path / "imported")

    found = log_grade(verify_pack(tmp_path / "imported"), str(tmp_path / "log.db"), TRUST, note)

    assert (found.grade, found.reasons) == (Grade.SELF_CONSISTENT, ("not in the log log.example: any segment",))
