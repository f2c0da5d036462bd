# The workshop's recipes. `just` comes with the extra "dev".

set shell := ["bash", "-euo", "pipefail", "-c"]

# List the recipes.
default:
    @just --list --unsorted

# Style, types, import contracts.
lint:
    ruff check .
    ruff format --check .
    mypy
    lint-imports

# Every test that answers soon.
test:
    pytest -n auto --dist worksteal -m "not long and not browser"

# How far each verb goes, alone in its process.
trips:
    pytest -n 0 tests/architecture/test_trips.py

# Every test at its whole length.
duels:
    CLVLAB_DUELS=whole pytest -n 2 --dist worksteal -m "not browser" tests

# Every test, the duels at their short length.
all:
    pytest -n 3 --dist worksteal -m "not browser"

# Notebooks and faces in Chromium.
browser:
    pytest -m "browser and not long" tests/browser

# The browser's verifier against the stand-alone file, at whole length.
browser-duels:
    CLVLAB_DUELS=whole pytest -m browser tests/browser/test_verifier.py tests/browser/test_verifier_page.py

# Notebooks cell by cell.
notebooks:
    CLVLAB_PROGRESS_AFTER_S=inf pytest -n 2 --dist loadfile -p nbval --nbval notebooks

# clvlab, Go and sigstore judge changed logs, proofs and notes; the extra "interop" brings the others.
interop cases="500":
    python -m tests.interop --cases {{ cases }}
    pytest -n 0 tests/interop tests/architecture/test_constraints.py "tests/docs/test_docs_run.py::test_every_step_of_a_page_works[check-us-with-other-code.md]"

# Branch coverage of what decides and binds scores: law, proof and log; it fails under 98 %.
coverage:
    pytest -n 2 --dist loadfile -m "not browser and not long" tests/law tests/proof tests/log tests/engine tests/arena tests/sql tests/test_cli.py --cov

# Changes of one place in law, proof and log that their near tests do not notice.
mutants seed="1" sample="400":
    python -m tests.mutants --seed {{ seed }} --sample {{ sample }} --jobs 2

# Wheel and source archive, looked at and tried.
package:
    python -m tests.package

# The documentation as a site, with every link and anchor checked.
site:
    NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --config-file .mkdocs.yml

# Every speed figure.
bench:
    python -m tests.benchmarks
    for part in imports seasons fixtures isolation whispers http searching sweeping small large; do python -m tests.benchmarks.$part; done

# clvlab beside other tools, in an environment of its own; one that is kept, if a folder is named.
field env="":
    python -m tests.benchmarks.field {{ if env == "" { "" } else { "--env " + quote(env) } }}

# The bundled packs anew, from their recipes; the same recipes give the same bytes.
packs:
    rm -r packs/starter packs/season
    clvlab packs build --out packs/starter --seed 2 --fixtures 12 --messages 300
    clvlab packs build --out packs/season --seed 2026 --fixtures 300 --messages 900
    clvlab packs admit starter --catalog packs
    clvlab packs admit season --catalog packs

# Known vulnerabilities of the pinned versions; pip-audit lives in an environment of its own, installed from a folder if one is named.
audit wheels="":
    python -m venv .audit
    .audit/bin/pip install --quiet {{ if wheels == "" { "" } else { "--no-index --find-links " + quote(wheels) } }} pip-audit
    .audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip
