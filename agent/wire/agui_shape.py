"""The shape of RunAgentInput, as AG-UI 1.0 has it (https://ag-ui.com/spec/1.0/schema.json).

Only what a client sends: AG-UI's own package builds the models of all its events and capabilities for it, which
takes 4 MiB that a server never reads. A test holds the two against each other, body by body.

Fields that are not named here may be there, and are not looked at.
"""

from __future__ import annotations

from functools import cache

from pydantic_core import CoreSchema, SchemaValidator, core_schema

Fields = dict[str, CoreSchema]

TEXT: CoreSchema = core_schema.str_schema()
OBJECT: CoreSchema = core_schema.dict_schema(core_schema.str_schema())


def _record(required: Fields, optional: Fields | None = None) -> CoreSchema:
    """An object; what is optional may also be null."""
    field, nullable = core_schema.typed_dict_field, core_schema.nullable_schema
    fields = {name: field(schema) for name, schema in required.items()}
    fields |= {name: field(nullable(schema), required=False) for name, schema in (optional or {}).items()}
    return core_schema.typed_dict_schema(fields)


def _one_of(*values: str) -> CoreSchema:
    return core_schema.literal_schema(list(values))


def _many(schema: CoreSchema) -> CoreSchema:
    return core_schema.list_schema(schema)


SOURCES = {
    "data": _record({"value": TEXT, "mimeType": TEXT}),
    "url": _record({"value": TEXT}, {"mimeType": TEXT}),
    "file": _record({"value": TEXT}, {"provider": TEXT, "mimeType": TEXT}),
}
MEDIA = _record({"source": core_schema.tagged_union_schema(SOURCES, "type")}, {"id": TEXT})
PARTS: Fields = {
    "text": _record({"text": TEXT}, {"id": TEXT}),
    **dict.fromkeys(("image", "audio", "video", "document"), MEDIA),
}
CONTENT = core_schema.union_schema([TEXT, _many(core_schema.tagged_union_schema(PARTS, "type"))])

MARKS: Fields = {"encryptedValue": TEXT, "metadata": OBJECT}
CALL = _record(
    {"id": TEXT, "function": _record({"name": TEXT, "arguments": TEXT})},
    MARKS | {"type": _one_of("function")},
)
BY_SUBAGENT: Fields = {"subagentRunId": TEXT}
SAID = BY_SUBAGENT | MARKS | {"name": TEXT}
INSTRUCTIONS = _record({"id": TEXT, "content": TEXT}, SAID)
MESSAGES: Fields = {
    "developer": INSTRUCTIONS,
    "system": INSTRUCTIONS,
    "assistant": _record({"id": TEXT}, SAID | {"content": TEXT, "toolCalls": _many(CALL)}),
    "user": _record({"id": TEXT, "content": CONTENT}, SAID),
    "tool": _record(
        {"id": TEXT, "content": CONTENT, "toolCallId": TEXT}, BY_SUBAGENT | MARKS | {"error": TEXT}
    ),
    "activity": _record(
        {"id": TEXT, "activityType": TEXT, "content": OBJECT}, BY_SUBAGENT | {"metadata": OBJECT}
    ),
    "reasoning": _record({"id": TEXT, "content": TEXT}, BY_SUBAGENT | MARKS),
}
TOOL = _record({"name": TEXT, "description": TEXT}, {"metadata": OBJECT})
CONTEXT = _record({"description": TEXT, "value": TEXT})
RESUME = _record({"interruptId": TEXT, "status": _one_of("resolved", "cancelled")}, {"metadata": OBJECT})
RUN_AGENT_INPUT = _record(
    {
        "threadId": TEXT,
        "runId": TEXT,
        "messages": _many(core_schema.tagged_union_schema(MESSAGES, "role")),
    },
    {
        "protocolVersion": TEXT,
        "parentRunId": TEXT,
        "tools": _many(TOOL),
        "context": _many(CONTEXT),
        "resume": _many(RESUME),
    },
)


@cache
def run_agent_input() -> SchemaValidator:
    return SchemaValidator(RUN_AGENT_INPUT)
