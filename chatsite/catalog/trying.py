"""Whether an endpoint answers, for the button that says so."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import ModuleType

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agent.errors import AgentError
from agent.events import TextMessageContent
from agent.messages import Message, TextPart, Transcript
from agent.providers.base import TurnRequest
from agent.providers.endpoint import Endpoint, Timeouts
from agent.providers.http import HttpProvider, close_shared_clients
from agent.wire import anthropic, openai_chat
from chatsite.catalog.entries import EndpointEntry

CODECS: dict[str, ModuleType] = {"openai": openai_chat, "anthropic": anthropic}
PATIENCE = Timeouts(connect=5, first_byte=20, idle=20)
"""Seconds: somebody waits before a page."""
LONGEST = 40.0
"""Seconds in all, however many signs of life it gives."""
NAMED = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    well: bool
    words: str


async def try_endpoint(entry: EndpointEntry, model: str = "") -> Outcome:
    """Ask it for its models; or, where it is not asked for them, `model` for one word."""
    try:
        address = Endpoint(name=entry.name, base_url=entry.base_url, api_key=entry.api_key, reach=entry.reach)
        provider = HttpProvider(
            CODECS[entry.dialect], address, timeouts=PATIENCE, retries=0, headers=dict(entry.headers)
        )
        began = time.monotonic()
        async with asyncio.timeout(LONGEST):
            words = await (_listed(provider) if entry.lists or not model else _said(provider, model))
        return Outcome(True, f"{words} ({(time.monotonic() - began) * 1000:.0f} ms)")
    except AgentError as error:
        return Outcome(False, str(error))
    except TimeoutError:
        return Outcome(False, _("It is there, and does not come to an end with its answer."))
    finally:
        await close_shared_clients()


async def _listed(provider: HttpProvider) -> str:
    names = await provider.models()
    more = _(" and more") if len(names) > NAMED else ""
    words = ngettext("It has %(count)s model: %(names)s", "It has %(count)s models: %(names)s", len(names))
    return words % {"count": len(names), "names": ", ".join(names[:NAMED])} + more


async def _said(provider: HttpProvider, model: str) -> str:
    asked = Message(id="try", role="user", parts=(TextPart("Say one word."),))
    request = TurnRequest(model, Transcript([asked]), "answer", parameters={"max_tokens": 16})
    said = [event.delta async for event in provider.stream(request) if isinstance(event, TextMessageContent)]
    return _("%(model)s answers: %(words)s") % {"model": model, "words": "".join(said)[:60] or "–"}
