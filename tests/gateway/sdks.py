"""The real SDKs, driven alike: a test says what is asked, and either the async client asks it or the sync one.

The sync client runs in a thread, as the gateway that it asks runs in the test's loop.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anthropic
import openai


@dataclass(frozen=True)
class Sdk:
    """`answers` is the resource that makes answers; `final` the method by which its stream helper gives the whole."""

    errors: Any
    client: Any
    answers: Any
    final: str


@dataclass(frozen=True)
class Async(Sdk):
    async def create(self, **body: Any) -> Any:
        return await self.answers.create(**body)

    async def stream(self, **body: Any) -> tuple[list[Any], Any]:
        """The events of the stream helper, and the answer that it makes of them."""
        async with self.answers.stream(**body) as stream:
            return [event async for event in stream], await getattr(stream, self.final)()

    async def read(self, **body: Any) -> list[Any]:
        return [event async for event in await self.answers.create(stream=True, **body)]

    async def leave(self, _: float, **body: Any) -> float:
        """Read one event, however long it takes to come, and go. When that was."""
        async with await self.answers.create(stream=True, **body) as stream:
            await anext(aiter(stream))
            return time.monotonic()

    async def give_up(self, seconds: float, **body: Any) -> float:
        """Wait so long for an answer that does not come. When that was over."""
        with suppress(self.errors.APITimeoutError):
            await self.answers.create(timeout=seconds, **body)
        return time.monotonic()

    async def listed(self, **query: Any) -> list[str]:
        return [model.id async for model in self.client.models.list(**query)]

    async def model(self, name: str) -> Any:
        return await self.client.models.retrieve(name)

    async def count(self, **body: Any) -> tuple[int, Any]:
        """The tokens, and the headers of the answer."""
        answer = await self.answers.with_raw_response.count_tokens(**body)
        return (await answer.parse()).input_tokens, answer.headers

    async def close(self) -> None:
        await self.client.close()


@dataclass(frozen=True)
class Sync(Sdk):
    async def create(self, **body: Any) -> Any:
        return await asyncio.to_thread(lambda: self.answers.create(**body))

    async def stream(self, **body: Any) -> tuple[list[Any], Any]:
        def read() -> tuple[list[Any], Any]:
            with self.answers.stream(**body) as stream:
                return list(stream), getattr(stream, self.final)()

        return await asyncio.to_thread(read)

    async def read(self, **body: Any) -> list[Any]:
        return await asyncio.to_thread(lambda: list(self.answers.create(stream=True, **body)))

    async def leave(self, _: float, **body: Any) -> float:
        def leave() -> float:
            with self.answers.create(stream=True, **body) as stream:
                next(iter(stream))
                return time.monotonic()

        return await asyncio.to_thread(leave)

    async def give_up(self, seconds: float, **body: Any) -> float:
        with suppress(self.errors.APITimeoutError):
            await asyncio.to_thread(lambda: self.answers.create(timeout=seconds, **body))
        return time.monotonic()

    async def listed(self, **query: Any) -> list[str]:
        return await asyncio.to_thread(lambda: [model.id for model in self.client.models.list(**query)])

    async def model(self, name: str) -> Any:
        return await asyncio.to_thread(self.client.models.retrieve, name)

    async def count(self, **body: Any) -> tuple[int, Any]:
        answer = await asyncio.to_thread(lambda: self.answers.with_raw_response.count_tokens(**body))
        return answer.parse().input_tokens, answer.headers

    async def close(self) -> None:
        await asyncio.to_thread(self.client.close)


Driven = Async | Sync
OPENAI = {Async: openai.AsyncOpenAI, Sync: openai.OpenAI}
ANTHROPIC = {Async: anthropic.AsyncAnthropic, Sync: anthropic.Anthropic}


def openais(driver: type[Driven], url: str, key: str) -> Driven:
    client = OPENAI[driver](base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30)
    return driver(openai, client, client.chat.completions, "get_final_completion")


def anthropics(driver: type[Driven], url: str, key: str) -> Driven:
    client = ANTHROPIC[driver](base_url=url, api_key=key, max_retries=0, timeout=30)
    return driver(anthropic, client, client.messages, "get_final_message")
