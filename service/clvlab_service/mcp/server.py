"""The tools and resources as a server of the protocol, by its SDK; the same one for HTTP and for stdio."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from clvlab.api.answer import JsonObject
from clvlab.errors import ClvlabError
from clvlab_service.mcp.answers import Fault, fault, fitted, invalid
from clvlab_service.mcp.resources import TEMPLATES, Resources
from clvlab_service.mcp.tools import TOOLS, Desk, Tool

Context = ServerRequestContext[Any, Any]
INSTRUCTIONS = (
    "clvlab: does an agent, or a list of bets, beat the closing line? Arena: enter, then act at every tick until done. "
    "Laboratory: grade_bets with a CSV, then verify. An error says what to do."
)
_WORDS = ("title", "default", "additionalProperties", "maxLength", "maxItems", "minimum", "maximum", "pattern", "format")


def server(desk_of: Callable[[Context], Desk]) -> Server[Any]:
    """Return a server of all tools; ``desk_of`` finds the caller of a request."""
    listed, resources = types.ListToolsResult(tools=[_listed(tool) for tool in TOOLS.values()]), Resources()
    templates = types.ListResourceTemplatesResult(
        resource_templates=[types.ResourceTemplate(name=about, uri_template=uri) for uri, about in TEMPLATES.items()]
    )

    async def list_tools(_: Context, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return listed

    async def list_resources(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="packs", uri="clv://packs")])

    async def list_templates(_: Context, __: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
        return templates

    async def call(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            known = ", ".join(TOOLS)
            return _refused(
                {"code": "unknown-tool", "detail": f"no tool {params.name!r:.80}", "remedy": f"call one of {known}"}
            )
        try:
            answer: JsonObject = await tool.call(desk_of(context), tool.request.model_validate(params.arguments or {}))
        except ValidationError as error:
            return _refused(invalid(error))
        except ClvlabError as error:
            return _refused(fault(error))
        more = None if tool.more is None or tool.lengthy not in answer else tool.more.format_map(answer)
        structure, text = fitted(answer, tool.lengthy if tool.lengthy in answer else None, more)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=structure)

    async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        try:
            page = await resources.read(desk_of(context), str(params.uri))
        except ClvlabError as error:
            found = fault(error)
            raise MCPError(code=types.INVALID_PARAMS, message=f"{found['code']}: {found['detail']}", data=found) from error
        named: JsonObject = {"uri": params.uri, "mime_type": page.media_type}
        if page.pages > 1:
            named["_meta"] = {"sha256": page.sha256, "pages": page.pages}
        if isinstance(page.content, bytes):
            return types.ReadResourceResult(
                contents=[types.BlobResourceContents(blob=base64.b64encode(page.content).decode(), **named)]
            )
        return types.ReadResourceResult(contents=[types.TextResourceContents(text=page.content, **named)])

    return Server(
        "clvlab",
        version=version("clvlab"),
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda _: None,  # no schema names a header, which the SDK would look for at each call
        on_list_tools=list_tools,
        on_call_tool=call,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
    )


def _refused(found: Fault) -> types.CallToolResult:
    structure, text = fitted(dict(found))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=structure, is_error=True
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.call.__doc__,
        input_schema=plain(tool.request.model_json_schema()),
        output_schema={name: one for name, one in plain(TypeAdapter(tool.answer).json_schema()).items() if name != "required"},
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads, destructive_hint=False, idempotent_hint=tool.repeats, open_world_hint=False
        ),
    )


def plain(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> JsonObject:
    """Return a JSON schema in fewer words: types and descriptions, without limits (errors name them) and references."""
    definitions = definitions or schema.get("$defs", {})
    if "$ref" in schema:
        return plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    made: JsonObject = {}
    for name, value in schema.items():
        if name in (*_WORDS, "$defs") or (name == "description" and "properties" in schema):
            continue
        if name == "properties":
            made[name] = {key: plain(one, definitions) for key, one in value.items()}
        elif name == "items":
            made[name] = plain(value, definitions)
        elif name == "anyOf":
            made |= _either([plain(one, definitions) for one in value])
        else:
            made[name] = value
    return made


def _either(kinds: list[JsonObject]) -> JsonObject:
    """Return alternatives, joined into one type with ``null`` where only types differ."""
    if all(set(kind) == {"type"} for kind in kinds):
        return {"type": [kind["type"] for kind in kinds]}
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) == 1 and len(others) < len(kinds) and isinstance(others[0].get("type"), str) and "enum" not in others[0]:
        return others[0] | {"type": [others[0]["type"], "null"]}
    return {"anyOf": kinds}
