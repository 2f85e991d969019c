"""The least server that does the same work: `python -m bench.floor --port N --model URL`.

One ASGI function on uvicorn. It reads the model's stream with aiohttp, parses it, runs the two tools, and
tells it all as AG-UI. It keeps nothing, checks nothing, and a model that misbehaves breaks it. What the real
server costs is measured against this.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from bench.serving import arguments, serve, session, whole_body

TOOLS = {
    "get_weather": lambda city: {"city": city, "temperature": 62, "conditions": "cloudy"},
    "get_clothing_advice": lambda temperature, conditions: {
        "recommendation": "Wear a light jacket" if temperature < 65 else "Light clothing is fine"
    },
}
SPECS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in TOOLS
]
DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def sse(type: str, **fields: Any) -> bytes:
    return b"data: " + DUMP({"type": type, **fields}).encode() + b"\n\n"


class Floor:
    def __init__(self, model_url: str) -> None:
        self.url = f"{model_url}/chat/completions"
        self.session: aiohttp.ClientSession | None = None

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if self.session is None:
            self.session = session()
        asked = json.loads(await whole_body(receive))
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self.run(asked):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def run(self, asked: Any) -> AsyncIterator[bytes]:
        ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
        messages = [{"role": each["role"], "content": each["content"]} for each in asked["messages"]]
        model = asked["forwardedProps"]["model"]
        yield sse("RUN_STARTED", **ids)
        calls: list[Any] = [None]
        while calls:
            calls, id, step = [], uuid.uuid4().hex, f"turn-{len(messages)}"
            yield sse("STEP_STARTED", stepName=step)
            async for piece in self.turn(model, messages, id, calls):
                yield piece
            await self.said(asked["runId"], messages[-1])
            yield sse("STEP_FINISHED", stepName=step)
            for call in calls:
                result = DUMP(TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"])))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
                await self.said(asked["runId"], messages[-1])
                yield sse(
                    "TOOL_CALL_RESULT", messageId=uuid.uuid4().hex, toolCallId=call["id"], content=result
                )
        yield sse("RUN_FINISHED", **ids)

    async def said(self, run_id: str, message: Any) -> None:
        """A message is whole, and the next thing is about to be told. Nothing is kept of it here."""

    async def turn(self, model: str, messages: list[Any], id: str, calls: list[Any]) -> AsyncIterator[bytes]:
        assert self.session is not None
        text: list[str] = []
        pieces: list[str] = []
        waiting = b""
        request = {"model": model, "messages": messages, "tools": SPECS, "stream": True}
        async with self.session.post(self.url, data=DUMP(request).encode()) as response:
            async for read in response.content.iter_any():
                *frames, waiting = (waiting + read).split(b"\n\n")
                out = []
                for frame in frames:
                    if frame == b"data: [DONE]":
                        continue
                    for choice in json.loads(frame[6:])["choices"]:
                        delta = choice["delta"]
                        if content := delta.get("content"):
                            if not text:
                                out.append(sse("TEXT_MESSAGE_START", messageId=id, role="assistant"))
                            text.append(content)
                            out.append(sse("TEXT_MESSAGE_CONTENT", messageId=id, delta=content))
                        for call in delta.get("tool_calls", ()):
                            if call.get("id"):
                                calls.append(call)
                                named = {"toolCallId": call["id"], "toolCallName": call["function"]["name"]}
                                out.append(sse("TOOL_CALL_START", parentMessageId=id, **named))
                            if grown := call["function"]["arguments"]:
                                pieces.append(grown)
                                out.append(sse("TOOL_CALL_ARGS", toolCallId=calls[-1]["id"], delta=grown))
                        if choice["finish_reason"]:
                            if text:
                                out.append(sse("TEXT_MESSAGE_END", messageId=id))
                            out.extend(sse("TOOL_CALL_END", toolCallId=call["id"]) for call in calls)
                if out:
                    yield b"".join(out)
        for call in calls:
            call["function"]["arguments"] = "".join(pieces)
        said = {"role": "assistant", "content": "".join(text) or None}
        messages.append(said | {"tool_calls": calls} if calls else said)


def main() -> None:
    port, model = arguments("The least server that does the same work.", "model")
    serve(Floor(model), port)


if __name__ == "__main__":
    main()
