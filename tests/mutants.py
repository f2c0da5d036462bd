"""``python -m tests.mutants --seed S --sample N``: changes of one place in law, proof and log that no near test notices.

Each mutant is tried in a copy of the project by the tests of its area: those of its module first, then the fastest.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from queue import SimpleQueue
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
PATHS = ("clvlab/law", "clvlab/proof", "clvlab/log")
AREAS = {"law": ("law", "proof"), "proof": ("proof",), "log": ("log", "proof")}  # folders of tests that are near a folder
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "notebooks")
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One place of a module, and what stands there instead; its kind is that of the node."""

    kind: str
    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} -> {self.after}"


def mutants(path: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its text."""
    source = (ROOT / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, after in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        before, text = source[start:end].decode(), after if isinstance(after, str) else ast.unparse(after)
        yield Mutant(_kind(node), path, node.lineno, start, end, before, f"({text})" if isinstance(after, ast.expr) else text)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | str]]:
    """Nodes below one, and what may stand for each of them: an expression, or the text of a statement."""
    for name, value in ast.iter_fields(node):
        # What only names types changes nothing, and the words of an error are not judged.
        if name in ("annotation", "returns", "decorator_list", "type_params") or (
            isinstance(node, ast.Raise) and name == "exc"
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.expr | ast.stmt):
                if not isinstance(child, ast.JoinedStr) and not _is_text(
                    child
                ):  # a part of an f-string has no place of its own
                    yield from ((child, after) for after in _instead(child))
                    yield from _changes(child)
            elif isinstance(child, ast.AST):
                yield from _changes(child)


def _kind(node: ast.AST) -> str:
    return type(node.value).__name__ if isinstance(node, ast.Constant) else type(node).__name__


def _is_text(node: ast.expr | ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _instead(node: ast.expr | ast.stmt) -> Iterator[ast.expr | str]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield ast.Compare(left, [*ops[:place], other(), *ops[place + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(str(value)):
            yield ast.Constant(f"{value}x")
        case ast.Constant(bytes(value)):
            yield ast.Constant(value + b"x")
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None"
        case ast.Expr() | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break() | ast.Delete():
            yield "pass"


def sample(every: list[Mutant], seed: int, most: int) -> list[Mutant]:
    """Draw mutants of one kind after the other: texts and numbers are many, and would hide what decides."""
    draw = random.Random(seed)
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in draw.sample(every, len(every)):
        kinds[mutant.kind].append(mutant)
    rounds = zip_longest(*(kinds[kind] for kind in sorted(kinds)))
    return [mutant for one in rounds for mutant in one if mutant is not None][:most]


class Copy:
    """A copy of the project, in which one mutant after the other is tried."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "clvlab"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        if (shared := ROOT.parent / "shared").exists():
            (folder / "shared").symlink_to(shared)

    def run(self, files: list[str], limit_s: float, *options: str, compiles: bool = False) -> tuple[int | None, str]:
        """Return the exit status of tests, ``None`` past the limit, and what they printed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
        command += ["-p", "no:nbval", "--hypothesis-seed=0", "-m", "not long and not browser", *options, *files]
        places = os.pathsep.join([str(self.root), str(self.root / "service")])
        own = {"PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "" if compiles else "1"}
        with subprocess.Popen(
            command, cwd=self.root, env=os.environ | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        ) as running:  # fmt: skip
            try:
                out, _ = running.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, 9)
                return None, running.communicate()[0]
        return running.returncode, out

    def attempt(self, mutant: Mutant, files: list[str], limit_s: float) -> str:
        """Return what a mutant died of, or nothing if it survived."""
        module = self.root / mutant.path
        source = module.read_bytes()
        for compiled in (module.parent / "__pycache__").glob(f"{module.stem}.*"):
            compiled.unlink()
        module.write_bytes(mutant.applied(source))
        try:
            status, out = self.run(files, limit_s)
        finally:
            module.write_bytes(source)
        if status is None:
            return f"over {limit_s:.0f} s"
        return (
            "" if status == 0 else next((line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))), out[-200:])
        )


def durations(copy: Copy, area: str) -> dict[str, float]:
    """Seconds of each file of an area's tests, which must pass as long as nothing is changed."""
    report = copy.root.parent / "report.xml"
    status, out = copy.run(
        [f"tests/{folder}" for folder in AREAS[area]], 3_600, f"--junitxml={report}", "-o", "junit_family=xunit1", compiles=True
    )
    if status != 0:
        sys.exit(f"tests/{area} fail without a mutant\n{out}")
    found: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):
        found[case.attrib["file"]] += float(case.attrib["time"])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--paths", nargs="+", default=PATHS)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    files = sorted(file.relative_to(ROOT).as_posix() for path in asked.paths for file in (ROOT / path).rglob("*.py"))
    every = [mutant for file in files for mutant in mutants(file)]
    chosen = sample(every, asked.seed, asked.sample)
    with tempfile.TemporaryDirectory(prefix="clvlab-mutants-") as name:
        free: SimpleQueue[Copy] = SimpleQueue()
        first = Copy(Path(name) / "0")
        near = {area: durations(first, area) for area in sorted({mutant.path.split("/")[1] for mutant in chosen})}
        for area, seconds in near.items():
            print(f"tests/{area}: {sum(seconds.values()):.0f} s without a mutant", flush=True)
        free.put(first)
        for job in range(1, asked.jobs):
            free.put(Copy(Path(name) / str(job)))

        def attempt(mutant: Mutant) -> str:
            seconds = near[mutant.path.split("/")[1]]
            order = sorted(seconds, key=lambda file: (Path(file).stem != f"test_{Path(mutant.path).stem}", seconds[file]))
            copy, began = free.get(), time.monotonic()
            try:
                cause = copy.attempt(mutant, order, 60 + 4 * sum(seconds.values()))
            finally:
                free.put(copy)
            print(f"{'died' if cause else 'SURVIVED'} in {time.monotonic() - began:.0f} s: {mutant}  {cause[:160]}", flush=True)
            return cause

        with ThreadPoolExecutor(asked.jobs) as pool:
            causes = list(pool.map(attempt, chosen))
    lived = Counter(mutant.path for mutant, cause in zip(chosen, causes, strict=True) if not cause)
    print(f"{len(chosen) - lived.total()} of {len(chosen)} mutants of {len(every)} died; survivors: {dict(lived)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
