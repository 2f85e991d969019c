"""The API for programs, described as OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0): `GET /api/schema.json`.

The chat's own bodies are described whole. Of the gateway's the fields that it looks at itself: the rest of a body is
the endpoint's, and goes on as it came.
"""

from __future__ import annotations

from typing import Any

from django.http import JsonResponse
from django.views.decorators.http import require_safe

Schema = dict[str, Any]

JSON = "application/json"
EVENTS = "text/event-stream"
TEXT: Schema = {"type": "string"}
AN_EVENT: Schema = {"type": "object", "properties": {"data": TEXT, "event": TEXT}}
ANYTHING: Schema = {}
AN_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 200}
KEY = [{"bearer": []}, {"key": []}]

CHAT_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": TEXT, "message": TEXT},
        }
    },
}
OPENAI_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": TEXT, "type": TEXT},
        }
    },
}
ANTHROPIC_ERROR: Schema = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": TEXT, "message": TEXT},
        },
    },
}
EITHER_ERROR: Schema = {"anyOf": [OPENAI_ERROR, ANTHROPIC_ERROR]}

MESSAGE: Schema = {
    "type": "object",
    "required": ["id", "role"],
    "properties": {
        "id": AN_ID,
        "role": {"enum": ["user", "assistant", "system", "developer", "tool", "reasoning", "activity"]},
        "content": ANYTHING,
    },
}
TOOL: Schema = {
    "type": "object",
    "required": ["name", "description"],
    "properties": {"name": TEXT, "description": TEXT, "parameters": {"type": "object"}},
}
RUN_INPUT: Schema = {
    "type": "object",
    "required": ["threadId", "runId", "messages"],
    "properties": {
        "threadId": AN_ID,
        "runId": AN_ID,
        "parentRunId": TEXT,
        "state": ANYTHING,
        "messages": {"type": "array", "items": MESSAGE},
        "tools": {"type": "array", "items": TOOL},
        "context": {"type": "array", "items": {"type": "object"}},
        "forwardedProps": {
            "type": "object",
            "properties": {"model": TEXT, "onDisconnect": {"enum": ["continue", "cancel"]}},
        },
        "resume": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["interruptId", "status"],
                "properties": {
                    "interruptId": AN_ID,
                    "status": {"enum": ["resolved", "cancelled"]},
                    "payload": ANYTHING,
                },
            },
        },
    },
}
THREAD: Schema = {
    "type": "object",
    "required": ["messages", "activeRun", "interrupts"],
    "properties": {"messages": {"type": "array"}},
}
SPOKEN: Schema = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": TEXT},
}
ASKED: Schema = {
    "type": "object",
    "required": ["model", "messages", "max_tokens"],
    "properties": {
        "model": {"type": "string", "minLength": 1, "maxLength": 200},
        "messages": {"type": "array", "minItems": 1, "items": SPOKEN},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": 100_000},
        "stream": {"type": "boolean"},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    },
}
MODELS: Schema = {"type": "object", "required": ["data"], "properties": {"data": {"type": "array"}}}


def _answers(good: Schema, error: Schema, *codes: int) -> Schema:
    found: Schema = {"200": good}
    for code in codes:
        found[str(code)] = {"description": "What is wrong, in words.", "content": {JSON: {"schema": error}}}
    return found


def _json(schema: Schema, words: str) -> Schema:
    return {"description": words, "content": {JSON: {"schema": schema}}}


def _asks(words: str, body: Schema, answer: Schema, error: Schema, *codes: int) -> Schema:
    return {
        "summary": words,
        "security": KEY,
        "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
        "responses": _answers(answer, error, *codes),
    }


def _in_query(name: str, schema: Schema, words: str) -> Schema:
    return {"in": "query", "name": name, "schema": schema, "description": words}


STREAM: Schema = {
    "description": "The run's events, as AG-UI 1.0 has them.",
    "content": {EVENTS: {"schema": AN_EVENT}},
}
COMPLETION: Schema = {
    "description": "The answer; with `stream: true` its events.",
    "content": {JSON: {"schema": {"type": "object"}}, EVENTS: {"schema": AN_EVENT}},
}
REFUSALS = (400, 401, 403, 404, 413, 415, 422, 429, 502, 503, 504, 529)

PATHS: Schema = {
    "/api/chat": {
        "post": _asks(
            "Run the loop in a thread, and follow it.",
            RUN_INPUT,
            STREAM,
            CHAT_ERROR,
            *(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
        ),
        "get": {
            "summary": "A thread's messages and its active run; or, by runId, a run's events.",
            "security": KEY,
            "parameters": [
                _in_query("threadId", TEXT, "The thread."),
                _in_query("runId", TEXT, "The run."),
                _in_query("limit", {"type": "integer", "minimum": 1}, "How many messages, the newest."),
                _in_query("before", TEXT, "Messages before the one of this id."),
            ],
            "responses": _answers(
                {
                    "description": "The thread, or the run's events.",
                    "content": {JSON: {"schema": THREAD}, EVENTS: {"schema": AN_EVENT}},
                },
                CHAT_ERROR,
                *(400, 401, 403, 404, 422, 429, 503),
            ),
        },
    },
    "/v1/chat/completions": {
        "post": _asks("An answer, in OpenAI's dialect.", ASKED, COMPLETION, OPENAI_ERROR, *REFUSALS)
    },
    "/v1/messages": {
        "post": _asks("An answer, in Anthropic's dialect.", ASKED, COMPLETION, ANTHROPIC_ERROR, *REFUSALS)
    },
    "/v1/messages/count_tokens": {
        "post": _asks(
            "How many tokens a request holds.",
            ASKED,
            _json({"type": "object", "required": ["input_tokens"]}, "The number."),
            ANTHROPIC_ERROR,
            *REFUSALS,
        )
    },
    "/v1/models": {
        "get": {
            "summary": "The models that this key may use; Anthropic's form where `anthropic-version` is sent.",
            "security": KEY,
            "responses": _answers(_json(MODELS, "The models."), EITHER_ERROR, 400, 401, 403, 429, 503),
        }
    },
    "/v1/health": {
        "get": {
            "summary": "Whether the gateway answers.",
            "security": [],
            "responses": {"200": _json({"type": "object"}, "It does.")},
        }
    },
}

DESCRIPTION: Schema = {
    "openapi": "3.1.0",
    "info": {
        "title": "Threadloom",
        "version": "1",
        "description": "The loop for programs (/api/chat), and the gateway (/v1).",
    },
    "components": {
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
    },
    "paths": PATHS,
}


@require_safe
def schema(request):
    return JsonResponse(DESCRIPTION)
