"""Writes the client's answer types from the OpenAPI document: ``python -m clvlab_service.typed_answers``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clvlab
from clvlab_service.app import create_app
from clvlab_service.settings import Settings

__all__ = ["main", "typed_answers"]

_HEAD = '''"""Answers of the service, as types. Written by ``python -m clvlab_service.typed_answers``; don't edit."""

from __future__ import annotations

from typing import {imports}

__all__ = [
{names}]
'''
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_REF = "#/components/schemas/"


def typed_answers(document: dict[str, Any]) -> str:
    """Return a module with one ``TypedDict`` per object that an endpoint answers with."""
    schemas = document["components"]["schemas"]
    wanted: dict[str, dict[str, Any]] = {}

    def want(schema: Any) -> None:
        if isinstance(schema, list):
            for entry in schema:
                want(entry)
        elif isinstance(schema, dict):
            name = str(schema.get("$ref", "")).removeprefix(_REF)
            if name and name not in wanted:
                wanted[name] = schemas[name]
                want(schemas[name])
            want([value for key, value in schema.items() if key not in ("example", "examples")])

    for methods in document["paths"].values():
        for operation in methods.values():
            want(operation["responses"].get("200"))
    objects = {name: schema for name, schema in sorted(wanted.items()) if schema["type"] == "object"}
    names = "".join(f'    "{name}",\n' for name in objects)
    classes = "".join(_typed_dict(name, schema, schemas) for name, schema in objects.items())
    imports = ", ".join(name for name in ("Any", "Literal", "NotRequired", "TypedDict") if name in classes)
    return _HEAD.format(names=names, imports=imports) + classes


def _typed_dict(name: str, schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"\n\nclass {name}(TypedDict):", f'    """{schema["description"]}"""', ""]
    for field, of in schema["properties"].items():
        kind = _annotation(of, schemas)
        lines.append(f"    {field}: {kind if field in schema.get('required', ()) else f'NotRequired[{kind}]'}")
    return "\n".join(lines) + "\n"


def _annotation(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return _annotation(schemas[name], schemas) if "enum" in schemas[name] else name
    if "anyOf" in schema:
        return " | ".join(_annotation(one, schemas) for one in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return "Literal[" + ", ".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in values) + "]"
    if schema.get("type") == "array":
        return f"list[{_annotation(schema['items'], schemas)}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {_annotation(inner, schemas) if isinstance(inner, dict) else 'Any'}]"
    return _PLAIN[schema["type"]]


def main() -> None:
    """Write ``clvlab/client/answers.py``."""
    path = Path(clvlab.__path__[0]) / "client" / "answers.py"
    path.write_text(typed_answers(create_app(Settings()).openapi()), encoding="utf-8")


if __name__ == "__main__":
    main()
