"""A thread's name in a model's words: one small call behind its first answer, when nobody waits for it.

It is asked of the model that answered, one thread at a time. The demo model is not asked, and `CHAT_AUTO_TITLE` turns
all of it off. A call that fails leaves the name that is there: the first line of what was asked. What the call takes
is in no run's usage: it is the person's, whose limits it counts for, and stands in the figures as a kind of its own.
Whoever has used up their limits gets no name.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import weakref
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from django.utils import timezone

from agent.errors import AgentError
from agent.events import ModelUsage, TextMessageContent, TurnEnd
from agent.messages import Transcript, Usage, user_message
from agent.providers.base import Provider, TurnRequest
from chatsite.chat import db, eventlog
from chatsite.chat.actions import organizing
from chatsite.chat.agents import DEMO, agents
from chatsite.chat.conf import setting
from chatsite.chat.limits import allowance, metering
from chatsite.chat.limits.metering import CHARS_A_TOKEN
from chatsite.chat.models import Thread
from chatsite.chat.problems import OverQuota, Problem
from chatsite.chat.process import draining, news
from chatsite.policies import quotas
from chatsite.policies.quotas import Account
from chatsite.usage.booking import book
from chatsite.usage.models import Day
from chatsite.usage.tally import Tally, Use

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


def name_soon(thread: Thread, user: Any, model: str, transcript: Transcript) -> None:
    """Have the thread named if its first answer is there. Returns at once. `user` is whose the call is."""
    said = [
        message for message in transcript if message.role in ("user", "assistant") and message.text.strip()
    ]
    first = len([message for message in said if message.role == "user"]) == 1 and said[-1].role == "assistant"
    wanted = setting("CHAT_AUTO_TITLE") and model != DEMO and thread.titled == Thread.Titled.TEXT
    if not (first and wanted) or draining.is_draining():
        return
    ask = ASK.format(question=said[0].text[:SHOWN], answer=said[-1].text[:SHOWN])
    work = _name(thread.pk, user, model, ask)
    task = asyncio.get_running_loop().create_task(work, name="title", context=contextvars.Context())
    _asking.add(task)
    task.add_done_callback(_asking.discard)


async def _name(thread_pk: int, user: Any, model: str, ask: str) -> None:
    lock = _one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        async with lock:
            title = await _asked(user, model, ask)
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


async def _asked(user: Any, model: str, ask: str) -> str:
    """What the model says, booked. Raises OverQuota."""
    allowed = await allowance.of(user)
    if allowed.accounts and (over := await db.write(quotas.over, allowed.accounts)) is not None:
        raise OverQuota(f"{over.name} is reached", 0)
    agent = await agents().agent_for(model, allowed=allowed)
    saying = _Saying(agent.provider, model, ask)
    try:
        async with asyncio.timeout(WITHIN):
            await saying.listen()
    finally:
        if saying.usage != Usage():
            await db.write(_book, user.pk, allowed.accounts, saying)
    return saying.text[:LONGEST]


class _Saying:
    """One call, as far as it came. Where the endpoint says nothing of what it took, that is estimated."""

    def __init__(self, provider: Provider, model: str, ask: str) -> None:
        self.model, self.endpoint, self.text = model, provider.name, ""
        self._provider, self._ask = provider, ask
        self._told = Usage()
        self._began = time.monotonic()

    @property
    def usage(self) -> Usage:
        if self._told != Usage() or not self.text:
            return self._told
        return Usage(len(self._ask) // CHARS_A_TOKEN, -(-len(self.text) // CHARS_A_TOKEN))

    @property
    def ms(self) -> int:
        return round((time.monotonic() - self._began) * 1000)

    async def listen(self) -> None:
        asked = Transcript((user_message("title", self._ask),))
        request = TurnRequest(self.model, asked, message_id="title", parameters={"max_tokens": 60})
        async with aclosing(self._provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextMessageContent):
                    self.text += event.delta
                elif isinstance(event, TurnEnd):
                    self._told, self.endpoint = event.usage, event.provider or self.endpoint
                if len(self.text) > LONGEST:
                    break


def _book(user_pk: Any, accounts: Sequence[Account], saying: _Saying) -> None:
    """For their limits, and for the figures of the day."""
    used = metering.amount_of([ModelUsage(saying.model, saying.usage)])
    if accounts:
        quotas.book(accounts, used)
    use = Use(
        day=timezone.now().date(),
        source=Day.Source.TITLE,
        input_tokens=saying.usage.input_tokens,
        output_tokens=saying.usage.output_tokens,
        cost=float(used.cost),
        ms=saying.ms,
    )
    tally = Tally()
    tally.add(use, model=saying.model, user=user_pk, endpoint=saying.endpoint)
    book(tally)
