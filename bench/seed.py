"""A long thread, as rows: 1,000 messages, 200 tool cards. `bench.browser` runs it in the site's own shell."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from agent.messages import Message, TextPart, ToolCallPart, ToolResultPart
from chatsite.chat import models
from chatsite.chat.rows import values

WITH_TOOL = 200
PLAIN = 100
SAID = """\
It is **cloudy** and 62 degrees. Some thoughts on that, in order:

1. Take a *light* jacket.
2. Leave the umbrella at home.

```python
def jacket(temperature: int) -> bool:
    return temperature < 65
```

The wind comes from the west, so mornings are fresher than the figure says.
"""


def exchange(number: int, with_tool: bool) -> list[Message]:
    asked = Message(f"u{number}", "user", (TextPart(f"And what about day {number}?"),))
    said = Message(f"a{number}", "assistant", (TextPart(SAID),), "stop")
    if not with_tool:
        return [asked, said]
    call = ToolCallPart(f"c{number}", "get_weather", '{"city":"San Francisco"}')
    result = ToolResultPart(
        call.id, '{"city":"San Francisco","temperature":62,"conditions":"cloudy"}', None, 12
    )
    looked = Message(f"l{number}", "assistant", (TextPart("Let me look."), call), "tool_calls")
    return [asked, looked, Message(f"t{number}", "tool", (result,)), said]


@transaction.atomic
def seed(user: str, thread_id: str) -> None:
    owner = get_user_model().objects.get_by_natural_key(user)
    thread = models.Thread.objects.create(owner=owner, public_id=thread_id, title="A long thread")
    now = timezone.now()
    for number in range(WITH_TOOL + PLAIN):
        run = models.Run.objects.create(
            thread=thread,
            state=models.Run.State.FINISHED,
            stop_reason="stop",
            created_at=now,
            finished_at=now,
        )
        for message in exchange(number, number < WITH_TOOL):
            row = values.row_of(message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id)
            row.save(force_insert=True)
            thread.head = row
    thread.save(update_fields=["head"])
