"""A thread's name in a model's words: one small call behind its first answer, when nobody waits for it.

It is asked of the model that answered, one thread at a time. The demo model is not asked, and `CHAT_AUTO_TITLE` turns
all of it off. A call that fails leaves the name that is there: the first line of what was asked. What the call costs
is in no run's usage.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from contextlib import aclosing

from agent.errors import AgentError
from agent.events import TextMessageContent
from agent.messages import Transcript, user_message
from agent.providers.base import Provider, TurnRequest
from chatsite.chat import db, draining, eventlog, news, organizing
from chatsite.chat.agents import DEMO, agents
from chatsite.chat.conf import setting
from chatsite.chat.models import Thread
from chatsite.chat.problems import Problem

log = logging.getLogger(__name__)

WITHIN = 30.0
"""Seconds that the call may take."""
SHOWN = 1_500
"""Characters of question and answer that the model gets."""
LONGEST = 200
"""Characters that are read of what it says."""

ASK = """Name the conversation below in at most six words, in its own language, without quotes or a full stop at the \
end. Say the name and nothing else.

<question>
{question}
</question>
<answer>
{answer}
</answer>"""

_one_at_a_time: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
    weakref.WeakKeyDictionary()
)
_asking: set[asyncio.Task[None]] = set()


def name_soon(thread: Thread, model: str, transcript: Transcript) -> None:
    """Have the thread named if its first answer is there. Returns at once."""
    said = [
        message for message in transcript if message.role in ("user", "assistant") and message.text.strip()
    ]
    first = len([message for message in said if message.role == "user"]) == 1 and said[-1].role == "assistant"
    wanted = setting("CHAT_AUTO_TITLE") and model != DEMO and thread.titled == Thread.Titled.TEXT
    if not (first and wanted) or draining.is_draining():
        return
    ask = ASK.format(question=said[0].text[:SHOWN], answer=said[-1].text[:SHOWN])
    work = _name(thread.pk, model, ask)
    task = asyncio.get_running_loop().create_task(work, name="title", context=contextvars.Context())
    _asking.add(task)
    task.add_done_callback(_asking.discard)


async def _name(thread_pk: int, model: str, ask: str) -> None:
    lock = _one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        async with lock:
            agent = await agents().agent_for(model)
            async with asyncio.timeout(WITHIN):
                title = await _say(agent.provider, model, ask)
        if await db.write(organizing.name_by_model, thread_pk, title):
            channel = eventlog.open_channel(thread_pk)
            if channel is not None:
                channel.retitle(organizing.title_line(title))
            news.thread_changed(thread_pk)
    except (AgentError, Problem, TimeoutError) as error:
        log.info("a thread keeps its first line for a name: %s", error or "the model took too long")
    except Exception:
        # Nobody waits for this, and nothing may come of it but a name.
        log.warning("a thread could not be named", exc_info=True)


async def _say(provider: Provider, model: str, ask: str) -> str:
    request = TurnRequest(
        model, Transcript((user_message("title", ask),)), message_id="title", parameters={"max_tokens": 60}
    )
    text = ""
    async with aclosing(provider.stream(request)) as events:  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, TextMessageContent):
                text += event.delta
            if len(text) > LONGEST:
                break
    return text[:LONGEST]
