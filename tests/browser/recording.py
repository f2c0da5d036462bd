"""A plugin of pytest that notes what tests ask the stand-alone verifier, and what it says: cases for another implementation.

``CLVLAB_CASES`` names the folder that cases go to, ``CLVLAB_CASES_EACH`` how many at most of one test.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from clvlab.proof import clv_states, clv_verify

__all__ = ["Case", "by_file", "evidence_case", "run_case", "transaction_case"]

Case = dict[str, Any]  # kind, what is asked, and what the file says of it; bytes are in base64
_LARGEST = 4 << 20
_NESTED = 0  # what a verification asks itself is no question of a test
_ASKED: Counter[str] = Counter()
_SEEN: set[bytes] = set()


def run_case(
    files: dict[str, bytes],
    trust: dict[str, Any] | bytes | None = None,
    required: Iterable[str] = (),
    *,
    without_witness: bool = False,
) -> Case:
    """Ask about a bundle or a disclosure (one file), or about a run folder. ``trust`` may be the bytes of a policy."""
    keys = json.dumps(trust).encode() if isinstance(trust, dict) else trust
    asked = {"trust": None if keys is None else _packed(keys), "required": list(required)}
    packed = [{"name": name, "bytes": _packed(content)} for name, content in files.items()]
    return {"kind": "run", "given": {"files": packed, "withoutWitness": without_witness} | asked}


def evidence_case(content: bytes) -> Case:
    """Ask whether a text is evidence."""
    return {"kind": "evidence", "given": {"bytes": _packed(content)}}


def transaction_case(content: bytes) -> Case:
    """Ask what a transaction says."""
    return {"kind": "transaction", "given": {"bytes": _packed(content)}}


def by_file(ask: Callable[[], Any]) -> Any:
    """Say what the file answers, or that it finds it broken or refuses it."""
    try:
        return ask()
    except clv_verify.BrokenError:
        return "broken"
    except clv_verify.InputError:
        return "refused"


def _packed(content: bytes) -> str:
    return b64encode(content).decode()


def _files(path: Path) -> dict[str, bytes]:
    if path.is_dir():
        return {name: (path / name).read_bytes() for name in clv_verify.PARTS[1:5] if (path / name).is_file()}
    return {"run.clv": path.read_bytes()} if path.is_file() else {}


def _note(case: Case, said: Any) -> None:
    """Write a case down, unless it was met before, is too large, or its test had its share."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0].partition("[")[0]
    text = json.dumps(case | {"test": test, "said": said})
    digest = sha256(json.dumps(case).encode()).digest()
    if _had_its_share(test) or len(text) > _LARGEST or digest in _SEEN:
        return
    _SEEN.add(digest)
    _ASKED[test] += 1
    with (Path(os.environ["CLVLAB_CASES"]) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(text + "\n")


def _had_its_share(test: str) -> bool:
    return _ASKED[test] >= int(os.environ["CLVLAB_CASES_EACH"])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip further parameters of a test that had its share: they pass or fail among the tests of the proof."""
    if "CLVLAB_CASES" in os.environ and _had_its_share(item.nodeid.partition("[")[0]):
        pytest.skip("its share of cases is noted")


def _noting(
    module: Any, name: str, case: Callable[..., Case | None], said: Callable[[Any], Any] = lambda answer: answer
) -> None:
    """Note each question to a function of a module, before it is asked."""
    original = getattr(module, name)

    def asked(*arguments: Any, **options: Any) -> Any:
        global _NESTED
        noted = None if _NESTED else case(*arguments, **options)
        _NESTED += 1
        try:
            answer = original(*arguments, **options)
        except (clv_verify.BrokenError, clv_verify.InputError) as error:
            if noted:
                _note(noted, "broken" if isinstance(error, clv_verify.BrokenError) else "refused")
            raise
        finally:
            _NESTED -= 1
        if noted:
            _note(noted, said(answer))
        return answer

    setattr(module, name, asked)


def _of_run(
    path: Path, trust: Any = None, required: Iterable[str] = (), *, without_witness: bool = False,
    provider_proofs: bytes | None = None,
) -> Case | None:  # fmt: skip
    """Ask as the file was asked, unless by a policy that it has read, or about proofs of a provider, which no page takes."""
    files = _files(path) if provider_proofs is None and not (trust or {}).get("policy") else {}
    return run_case(files, trust, required, without_witness=without_witness) if files else None


def _of_states(path: Path, ticks: Any, books: Any = None) -> Case | None:
    source = _TICKS.get(id(ticks))
    return None if source is None or books is not None else run_case(_files(path) | {"ticks.csv": source})


_TICKS: dict[int, bytes] = {}


def _remembering(original: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        ticks = original(path)
        _TICKS[id(ticks)] = path.read_bytes()
        return ticks

    return read


def pytest_configure() -> None:
    if "CLVLAB_CASES" not in os.environ:
        return
    _noting(clv_verify, "verify", _of_run)
    _noting(clv_verify, "verify_disclosure", lambda path, required=(): _of_run(path, None, required))
    _noting(clv_verify, "check_disclosure", lambda content, _: run_case({"run.clv": content}), lambda _: "holds")
    _noting(clv_verify, "read_evidence", evidence_case, lambda _: "holds")
    _noting(clv_verify, "parsed", lambda content: {"kind": "parsed", "given": {"bytes": _packed(content)}}, lambda _: "holds")
    _noting(
        clv_verify, "merkle_root", lambda lines: {"kind": "root", "given": {"lines": [_packed(line) for line in lines]}}
    )  # fmt: skip
    _noting(clv_verify, "Transaction", transaction_case, lambda sent: memos_of(sent))
    clv_states.read_ticks = _remembering(clv_states.read_ticks)
    _noting(clv_states, "verify_states", _of_states)


def memos_of(sent: clv_verify.Transaction) -> Any:
    """Write what a transaction says as the page does."""
    return {"signature": sent.signature, "memos": [{"memo": memo.hex(), "signers": signers} for memo, signers in sent.memos]}
