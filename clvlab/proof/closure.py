"""Trust closure: the sources that decide a score, a digest over them, and an audit of their imports.

The audit uses an allow-list instead of a list of known model vendors, so that a new vendor fails too. Dynamic imports are never
allowed. The audit stops accidents, not attackers: hostile code can change the audit, the interpreter, or a library.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.abc import SourceLoader
from importlib.util import cache_from_source
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from threading import Lock
from types import CodeType

TRUST = ("errors.py", "law", "proof")
_PACKAGE = "clvlab"
_CACHE = "__pycache__"
_KEPT = "audited"
_OWN_SOURCE = Path(__file__).read_bytes()  # of the rules that this process has
_GUARDED = ("__init__", "errors", "law", "proof")
_IMPORTABLE = ("", ".py", ".pyc", ".pyd", ".so")  # a folder has no suffix


@dataclass(frozen=True, slots=True)
class Closure:
    """The sources, sorted by name relative to the package folder, and other files found among them."""

    sources: dict[str, bytes]
    strays: tuple[str, ...]


def package_folder() -> Path:
    return Path(__file__).parent.parent


def read_closure(root: Path) -> Closure:
    """Read the sources of a package folder, and list files that Python could import in their place."""
    sources, strays = {}, []
    waiting = [(root / name, name) for name in TRUST]
    for path, name in waiting:  # the list grows by the content of each folder
        mode = path.lstat().st_mode
        if S_ISLNK(mode):  # the target of a link can be changed from elsewhere
            strays.append(f"{name}: a symbolic link")
        elif path.parent.name == _CACHE:
            if not S_ISREG(mode) or ".pyc" not in path.name:
                strays.append(f"{name}: only bytecode may stand in a cache")
        elif S_ISDIR(mode):
            waiting += [(inner, f"{name}/{inner.name}") for inner in path.iterdir()]
        elif S_ISREG(mode) and path.suffix == ".py":
            sources[name] = path.read_bytes()
        else:
            strays.append(f"{name}: only Python sources may stand in a trust folder")
    # Python prefers an extension module or a package over a source of the same name, so one could replace the law unseen.
    for path in root.iterdir():
        guarded = path.name.split(".")[0] in _GUARDED and path.name not in (*TRUST, "__init__.py")
        if guarded and path.suffix in _IMPORTABLE:
            strays.append(f"{path.name}: stands next to the source that it may be imported for")
    return Closure({name: sources[name] for name in sorted(sources)}, tuple(sorted(strays)))


def source_digest(root: Path | None = None) -> str:
    """Return the SHA-256 over the output of ``sha256sum`` for the sources, sorted by name."""
    read = read_closure(package_folder() if root is None else root).sources
    lines = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in read.items())
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def foreign_modules(root: Path, sources: Mapping[str, bytes]) -> list[str]:
    """Return the modules of the closure that this process loaded from elsewhere."""
    found = []
    for name, module in [(name, module) for name, module in list(sys.modules.items()) if name.startswith(_PACKAGE)]:
        top, _, rest = name.partition(".")
        if top != _PACKAGE or rest.split(".")[0] not in _GUARDED:
            continue
        stem = rest.replace(".", "/")
        own = [str(root / file) for file in (f"{stem}.py", f"{stem}/__init__.py") if file in sources]
        try:
            origin = module.__file__
        except AttributeError:
            origin = None
        if origin not in own:
            found.append(f"{name} was loaded from {origin or 'nowhere'}")
    return sorted(found)


# Allowed imports of the trust folders: modules, and the needed names of each.
#
# Modules alone would allow too much: most modules hold others (``pathlib.os``, ``polars.subprocess``), and some of their
# functions load or run code (``polars.plugins``, ``typing.get_type_hints``).


ALLOWED_NAMES: Mapping[str, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in {
        "__future__": "annotations",
        "argparse": "ArgumentParser",
        "array": "array",
        "ast": "AST Attribute Import ImportFrom Load MatchClass Name parse walk",
        "base64": "b64decode b64encode",
        "bisect": "bisect_left bisect_right",
        "collections": "Counter OrderedDict defaultdict deque",
        "collections.abc": "Callable Collection Generator Hashable Iterable Iterator Mapping MutableMapping Sequence Set",
        "concurrent": "",
        "concurrent.futures": "Future ThreadPoolExecutor",
        "csv": "DictReader DictWriter Error reader writer",
        "dataclasses": "asdict astuple dataclass field fields replace",
        "decimal": "Decimal InvalidOperation ROUND_HALF_EVEN ROUND_HALF_UP localcontext",
        "enum": "Enum IntEnum StrEnum",
        "functools": "cache cached_property lru_cache reduce",
        "gc": "disable enable isenabled",
        "hashlib": "sha256 sha512",
        "io": "BytesIO StringIO",
        "itertools": "accumulate batched chain count groupby islice pairwise repeat",
        "json": "JSONDecodeError JSONDecoder JSONEncoder dumps loads",
        "math": "ceil floor isfinite isnan isqrt sqrt",
        "msgspec": "Meta MsgspecError Struct",
        "msgspec.json": "Decoder Encoder",
        "numpy": """
            append arange argmax argsort array array_equal bool_ concatenate cumsum empty flatnonzero frombuffer fromiter full
            inf int64 isin lexsort logical_or maximum minimum ndarray ones repeat searchsorted select sort split unique where
            zeros zeros_like
            """,
        "numpy.typing": "NDArray",
        "orjson": "JSONDecodeError JSONEncodeError OPT_APPEND_NEWLINE OPT_SORT_KEYS dumps loads",
        "pathlib": "Path PurePath PurePosixPath",
        "polars": """
            Boolean DataFrame DataType Decimal Enum Expr Float32 Float64 Int8 Int16 Int32 Int64 Int128 LazyFrame List
            Categorical Null Schema Series String Struct UInt8 UInt16 UInt32 UInt64 all all_horizontal any any_horizontal
            coalesce col collect_all concat concat_list concat_str count element exceptions exclude first fold format
            int_range int_ranges last len lit max max_horizontal min min_horizontal nth ones repeat select
            struct sum sum_horizontal when zeros
            """,
        "polars.selectors": "boolean integer",
        "polars.exceptions": "ComputeError InvalidOperationError PolarsError SchemaError",
        "re": "ASCII Match Pattern compile escape fullmatch match search sub",
        "stat": "S_ISDIR S_ISLNK S_ISREG",
        "sys": "argv exit stderr stdin stdout",
        "threading": "Lock RLock",
        "typing": """
            Annotated Any ClassVar Final Generic Literal NamedTuple NotRequired Protocol Self TYPE_CHECKING TypeAlias TypeVar
            TypedDict cast
            """,
    }.items()
}


# Bytecode that Python would run in place of a source must equal the source's compiled code.
#
# Python runs a cached ``.pyc`` without a look at the source's text if its header fits the source, or promises to fit (PEP 552).
# So other code can hide behind an innocent source.


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A source's cached bytecode, and the time of the source, which the bytecode's header must match."""

    name: str
    bytecode: bytes
    mtime: int


def read_cache(root: Path, sources: Mapping[str, bytes]) -> tuple[CacheEntry, ...]:
    found = []
    for name in sources:
        source, cache = root / name, Path(cache_from_source(str(root / name)))
        try:
            found.append(CacheEntry(name, cache.read_bytes(), int(source.stat().st_mtime)))
        except OSError:  # missing or unreadable: Python compiles the source
            continue
    return tuple(found)


def foreign_bytecode(sources: Mapping[str, bytes], found: Iterable[CacheEntry]) -> list[str]:
    """Return the sources that this Python would replace by other code."""
    wrong = [entry.name for entry in found if not _runs_as_written(sources[entry.name], entry)]
    return [f"{name}: Python would run bytecode that is not compiled from it" for name in wrong]


class _Loader(SourceLoader):
    """Python's own choice between a source and its cache, on bytes that were read before."""

    def __init__(self, source: bytes, entry: CacheEntry) -> None:
        self.source, self.entry = source, entry

    def get_filename(self, fullname: str) -> str:
        return fullname

    def get_data(self, path: str | bytes) -> bytes:
        return self.source if path == self.entry.name else self.entry.bytecode

    def path_stats(self, path: str | bytes) -> Mapping[str, int]:
        return {"mtime": self.entry.mtime, "size": len(self.get_data(path))}


def _runs_as_written(source: bytes, entry: CacheEntry) -> bool:
    try:
        code = _Loader(source, entry).get_code(entry.name)
        own = compile(source, entry.name, "exec", dont_inherit=True)
    except (EOFError, ImportError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return False
    return code is not None and _bare(code) == _bare(own)


def _bare(code: CodeType) -> tuple[CodeType, bytes]:
    """Return code without file name and columns, which depend on the compilation."""
    inner = tuple(_bare(value) if isinstance(value, CodeType) else value for value in code.co_consts)
    return code.replace(co_filename="", co_linetable=b"", co_consts=inner), code.co_exceptiontable


_OWN = ("clvlab.errors", "clvlab.law", "clvlab.proof")
_EXCEPTIONS = frozenset(
    {
        ("proof/closure.py", "compile()"),
        ("proof/closure.py", "importlib.abc.SourceLoader"),
        ("proof/closure.py", "importlib.util.cache_from_source"),
        ("proof/closure.py", "types.CodeType"),
        ("proof/clv_states.py", "clv_verify"),  # run as a file, it imports the one next to it
        ("proof/clv_states.py", "sys.path"),
        ("proof/clv_verify.py", "os"),  # it opens files itself, without waiting for a pipe
        ("proof/clv_verify.py", "stat"),
        ("proof/closure.py", "sys.modules"),
        ("proof/closure.py", "sys.version"),
    }
)
_FORBIDDEN_NAMES = frozenset({"breakpoint", "compile", "eval", "exec", "getattr", "globals", "help", "locals", "vars"})
_SPECIAL_NAMES = frozenset({"__all__", "__file__", "__name__", "__package__"})
_SPECIAL_ATTRIBUTES = frozenset({"__file__", "__init__", "__name__", "__setattr__"})
_FORBIDDEN_ATTRIBUTES = frozenset(
    {"ag_frame", "builtins", "cr_frame", "exec_module", "gi_frame", "import_module", "importlib", "load_module", "meta_path",
     "modules", "os", "path_hooks", "subprocess", "sys"}
)  # fmt: skip

_PARSING = Lock()

Names = Mapping[str, Collection[str]]


def audit(folder: Path | None = None) -> tuple[str, ...]:
    """Return every reach of the trust folders beyond themselves. A missing source counts too, so the audit fails closed."""
    if folder is not None:
        return _audit(folder, None)[1]
    root = package_folder()
    sources, found = _own_audit(root)
    return (*found, *foreign_modules(root, sources))


@cache
def _own_audit(root: Path) -> tuple[Mapping[str, bytes], tuple[str, ...]]:
    """Audit this package once a process, because the process keeps running what it loaded."""
    return _audit(root, root / _CACHE / _KEPT)


def _audit(root: Path, kept: Path | None) -> tuple[Mapping[str, bytes], tuple[str, ...]]:
    """Return sources and what was found. ``kept`` holds the digest of the files in which nothing was found before."""
    missing = tuple(f"{name} is missing" for name in TRUST if not (root / name).exists())
    if missing:
        return {}, missing
    closure = read_closure(root)
    bytecode = read_cache(root, closure.sources)
    # A person who can forge it can also replace the bytecode of this module, which is in a folder of the same kind.
    digest = hashlib.sha256(repr((sys.version, sorted(closure.sources.items()), bytecode)).encode()).hexdigest().encode()
    if closure.sources.get("proof/closure.py") != _OWN_SOURCE:  # after an update, a process would keep what older rules found
        kept = None
    if kept is not None and _content_of(kept) == digest:
        return closure.sources, closure.strays
    found = _audited(tuple(closure.sources.items()), bytecode)
    if kept is not None and not found:
        _keep(kept, digest)
    return closure.sources, (*closure.strays, *found)


def _content_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _keep(path: Path, content: bytes) -> None:
    """Write a file next to Python's own caches. Where that is not allowed, each process audits again."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    except OSError:
        return


@lru_cache(maxsize=4)
def _audited(read: tuple[tuple[str, bytes], ...], bytecode: tuple[CacheEntry, ...]) -> tuple[str, ...]:
    parsed = {name: _nodes(source) for name, source in read}
    own: dict[str, set[str]] = {one: set() for one in _OWN}
    for name in parsed:
        parts = _module(name).split(".")
        own |= {".".join(parts[:end]): set() for end in range(2, len(parts) + 1)}
    for name, nodes in parsed.items():
        if not isinstance(nodes, str):
            own[_module(name)] |= {bound for _, bound, target, _ in _imports(nodes, name) if _is_module(target, own)}
    found = [violation for name, nodes in parsed.items() for violation in _violations(nodes, name, own)]
    return (*found, *foreign_bytecode(dict(read), bytecode))


def _module(name: str) -> str:
    return f"clvlab.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"


def violations(source: str | bytes, name: str) -> list[str]:
    """Return the forbidden imports and names of one source file. ``name`` is relative to the package."""
    return list(_violations(_nodes(source), name, None))


def _nodes(source: str | bytes) -> list[ast.AST] | str:
    try:
        return list(ast.walk(_parsed(source)))
    except (MemoryError, RecursionError, SyntaxError, ValueError) as error:
        return str(error)


def _parsed(source: str | bytes) -> ast.AST:
    """Parse without garbage collection, because CPython 3.11 counts recursion depth once for all threads."""
    # Only a collection of cycles lets another thread run here. Of two threads at once, each would turn it on for the other.
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if collects:
                gc.enable()


def _violations(nodes: list[ast.AST] | str, name: str, own: Names | None) -> Iterator[str]:
    if isinstance(nodes, str):
        yield f"{name}: not Python: {nodes}"
        return
    for line, target in _reached(nodes, name, own):
        if (name, target) not in _EXCEPTIONS:
            yield f"{name}:{line}: {target}"


def _reached(nodes: list[ast.AST], name: str, own: Names | None) -> Iterator[tuple[int, str]]:
    """Yield the forbidden reaches of a source, each with its line.

    1. An import that is not allowed.
    2. A name in a module that is not allowed.
    3. A module that is used without a dot after it, which the audit can't follow.
    4. A name or attribute that leads around imports.
    """
    modules: dict[str, set[str]] = {}
    for line, bound, target, imported in _imports(nodes, name):
        modules.setdefault(bound, set()).add(target)
        if not _allowed(imported, own):  # 1
            yield line, imported
    dotted = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        match node:
            case ast.Attribute():
                targets = [f"{module}.{node.attr}" for module in _named(node.value, modules, own)]
                yield from ((node.lineno, target) for target in targets if not _allowed(target, own))  # 2
                if not targets and _leads_around(node.attr, private=not _is_own_object(node.value)):
                    yield node.lineno, f".{node.attr}"  # 4
            case ast.MatchClass():
                yield from ((node.cls.lineno, f".{attr}") for attr in node.kwd_attrs if _leads_around(attr, private=True))
            case ast.Name() if node.id in _FORBIDDEN_NAMES or (node.id.startswith("__") and node.id not in _SPECIAL_NAMES):
                yield node.lineno, f"{node.id}()"
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in dotted:
            yield from ((node.lineno, f"{module} as a value") for module in _named(node, modules, own))  # 3


def _imports(nodes: list[ast.AST], name: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield the line, the bound name, its target, and the import. ``import a.b`` binds ``a``."""
    for node in nodes:
        match node:
            case ast.Import():
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    yield node.lineno, alias.asname or top, alias.name if alias.asname else top, alias.name
            case ast.ImportFrom():
                package = ["clvlab", *name.split("/")[:-1]]
                base = package[: len(package) - node.level + 1] if node.level else []
                module = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    yield node.lineno, alias.asname or alias.name, f"{module}.{alias.name}", f"{module}.{alias.name}"


def _named(node: ast.AST, modules: Names, own: Names | None) -> list[str]:
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    named = list(modules.get(node.id, ())) if isinstance(node, ast.Name) else []
    for attribute in reversed(attributes):
        named = [f"{module}.{attribute}" for module in named if _is_module(module, own)]
    return [module for module in named if _is_module(module, own)]


def _is_module(target: str, own: Names | None) -> bool:
    return target == "clvlab" or target in ALLOWED_NAMES or (own is not None and target in own)


def _allowed(target: str, own: Names | None) -> bool:
    module, _, name = target.rpartition(".")
    if not any(target == one or target.startswith(f"{one}.") for one in _OWN):
        return target in ALLOWED_NAMES or name in ALLOWED_NAMES.get(module, ())
    return name != "*" and (own is None or target in own or (module in own and name not in own[module]))


def _is_own_object(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _leads_around(attribute: str, *, private: bool) -> bool:
    if attribute.startswith("__"):
        return attribute not in _SPECIAL_ATTRIBUTES
    return attribute in _FORBIDDEN_ATTRIBUTES or (private and attribute.startswith("_"))
