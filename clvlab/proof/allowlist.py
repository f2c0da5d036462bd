"""What the trust folders may import: modules, and of each the names that they need.

Names, not modules alone: most modules hold others (``pathlib.os``, ``polars.subprocess``), and some of their functions
load or run code (``polars.plugins``, ``typing.get_type_hints``).
"""

from __future__ import annotations

from collections.abc import Mapping

ALLOWED_NAMES: Mapping[str, frozenset[str]] = {
    module: frozenset(names.split())
    for module, names in {
        "__future__": "annotations",
        "argparse": "ArgumentParser",
        "ast": "AST Attribute Import ImportFrom Load MatchClass Name parse walk",
        "base64": "b64decode b64encode",
        "bisect": "bisect_left bisect_right",
        "collections": "Counter OrderedDict defaultdict deque",
        "collections.abc": "Callable Collection Generator Iterable Iterator Mapping MutableMapping Sequence Set",
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
        "orjson": "JSONDecodeError JSONEncodeError OPT_APPEND_NEWLINE OPT_SORT_KEYS dumps loads",
        "pathlib": "Path PurePath PurePosixPath",
        "polars": """
            Boolean CompatLevel DataFrame DataType Decimal Expr Float32 Float64 Int8 Int16 Int32 Int64 Int128 LazyFrame List
            Categorical Null Schema Series String Struct UInt8 UInt16 UInt32 UInt64 all all_horizontal any any_horizontal
            coalesce col collect_all concat concat_list concat_str count element exceptions exclude first fold format
            from_arrow int_range int_ranges last len lit max max_horizontal min min_horizontal nth ones repeat select
            struct sum sum_horizontal when zeros
            """,
        "polars.exceptions": "ComputeError InvalidOperationError PolarsError SchemaError",
        "pyarrow": """
            Array ArrowException ArrowInvalid BufferReader ChunkedArray DataType Field Schema Table array bool_
            field float64 int8 int16 int32 int64 json large_string list_ py_buffer schema string struct table uint32 uint64
            """,
        "pyarrow.json": "ParseOptions ReadOptions read_json",
        "re": "ASCII Match Pattern compile escape fullmatch match search sub",
        "stat": "S_ISDIR S_ISLNK S_ISREG",
        "sys": "argv exit stderr stdin stdout",
        "threading": "Lock RLock",
        "typing": """
            Any ClassVar Final Literal NamedTuple NotRequired Protocol Self TYPE_CHECKING TypeAlias TypeVar TypedDict cast
            """,
    }.items()
}
