"""Types of columns, and the catalog of the tables.

JSON is text, written by ``Json``: databases store it and never look inside.
"""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import BigInteger, Dialect, Integer, MetaData, Text, TypeDecorator


class Name(TypeDecorator[str]):
    """A text that callers choose or ask for: what a database can't hold (NUL, lone surrogates) is found nowhere."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else value.encode(errors="replace").decode().replace("\x00", "\ufffd")


class Json(TypeDecorator[Any]):
    """A JSON value as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else orjson.dumps(value).decode()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        return None if value is None else orjson.loads(value)


# A row id: SQLite counts up by itself only in a column that is exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
