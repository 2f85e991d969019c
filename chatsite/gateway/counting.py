"""`/v1/messages/count_tokens`: asked of an endpoint that has it, estimated for the others.

The targets of the model are asked in their order, as they are for an answer. Where one stands that cannot count, there
is the estimate: of what the model will read, four bytes of text or JSON a token, `IMAGE` tokens a picture, a few for
every message. It is off by a fifth for English prose and says so in `x-threadloom-estimate`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from agent.errors import BadStream, ProviderError
from agent.messages import FilePart, ImagePart, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from agent.providers.base import TurnRequest
from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump
from chatsite.gateway import upstream
from chatsite.gateway.bodies import Body
from chatsite.gateway.endpoints import Target
from chatsite.gateway.errors import EndpointRefused, Refused, refusal_of
from chatsite.gateway.passing import forwarded, refusal
from chatsite.gateway.rounds import is_final
from chatsite.gateway.routes import Routes
from chatsite.gateway.translating import request_of

log = logging.getLogger(__name__)

BYTES_A_TOKEN = 4
A_MESSAGE = 4
IMAGE = 1500


async def count(
    body: Body, routes: Routes, headers: Mapping[bytes, bytes], request_id: str
) -> tuple[int, bool]:
    """Tokens of this request of Anthropic's dialect, and whether that is an estimate. Raises Refused: the last
    target's, when none that could count did."""
    refused: Refused | None = None
    for target in await routes.targets(body.model):
        if target.endpoint.dialect != "anthropic":
            break
        try:
            counted = await _ask(target, body, forwarded(headers, "anthropic", request_id))
        except (EndpointRefused, ProviderError) as failure:
            error = failure.error if isinstance(failure, EndpointRefused) else failure
            if error.status == 404:
                # Not every server that imitates the API has this path.
                break
            log.warning("%s: %s did not count: %s (%s)", request_id, target.name, error, error.code)
            routes.cooling.failed(target, error)
            refused = failure.refusal if isinstance(failure, EndpointRefused) else refusal_of(failure)
            if is_final(error):
                raise refused from None
        else:
            routes.cooling.answered(target)
            return counted, False
    else:
        assert refused is not None
        raise refused
    return estimate(request_of("anthropic", _with_limit(body), target.model)), True


async def _ask(target: Target, body: Body, headers: Mapping[str, str]) -> int:
    endpoint = target.endpoint
    answer = await upstream.send(
        endpoint.count_url,
        body.named(target.model),
        {**endpoint.headers, **headers},
        endpoint.timeouts,
        endpoint.client_timeout,
        endpoint.reach,
    )
    try:
        if not answer.ok:
            raise await refusal(answer, target, "anthropic", body.model)
        value = load(await upstream.whole(answer))
        return int(value["input_tokens"])
    except (NotJson, KeyError, TypeError, ValueError) as error:
        raise BadStream("The model's endpoint sent no count of tokens.") from error
    finally:
        answer.leave()


def _with_limit(body: Body) -> Body:
    """The same as a request for an answer, which must have a limit."""
    return Body(body.raw, body.model, body.stream, {"max_tokens": 1, **body.json})


def estimate(request: TurnRequest) -> int:
    size = len(request.system.encode("utf-8", "replace"))
    for tool in request.tools:
        size += len(dump([tool.name, tool.description, tool.parameters]).encode())
    tokens = 0
    for message in request.transcript:
        tokens += A_MESSAGE
        for part in message.parts:
            size += _bytes_of(part)
            tokens += _pictures_in(part) * IMAGE
    return tokens + -(-size // BYTES_A_TOKEN)


def _bytes_of(part: Part) -> int:
    match part:
        case TextPart() | ThinkingPart():
            return len(part.text.encode("utf-8", "replace"))
        case ToolCallPart():
            return len((part.name + part.arguments).encode("utf-8", "replace"))
        case ToolResultPart(content=str(text)):
            return len(text.encode("utf-8", "replace"))
        case ToolResultPart(content=parts):
            return sum(map(_bytes_of, parts))
        case FilePart(data=str(data)):
            return len(data) * 3 // 4
    return 0


def _pictures_in(part: Part) -> int:
    if isinstance(part, ToolResultPart) and not isinstance(part.content, str):
        return sum(map(_pictures_in, part.content))
    return int(isinstance(part, ImagePart))
