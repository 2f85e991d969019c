"""A transcript as every model's server wants it: each call followed by its one result.

Servers refuse a whole conversation for one call without a result or one result without a call, and
transcripts are older than rules: imported, cut by a crash, moved from another provider. So both codecs read
them through here.

    a call without a result               gets an error result that says so
    a result without a call, or a second  is left out
    a result that stands elsewhere        stands with its call
    a call id or name no server takes     is spelled another way, the same for call and result
    a notice of ours                      is a user's turn: many servers refuse a system message there, and those that
                                          have them at the top only would take the model's last words for a beginning
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace

from agent.messages import NOTICE, FilePart, ImagePart, Message, ToolResultPart, Transcript

NO_RESULT = "There is no result: the call was not carried out."

Results = dict[str, ToolResultPart]
"""The results of one assistant message, by call id, in call order."""


def with_results(transcript: Transcript) -> Iterator[tuple[Message, Results]]:
    """Every message but the tool messages, each assistant message with the results of its own calls."""
    waiting: defaultdict[str, deque[tuple[int, ToolResultPart]]] = defaultdict(deque)
    for number, message in enumerate(transcript):
        if message.role == "tool":
            for part in message.tool_results:
                waiting[part.tool_call_id].append((number, part))
    for number, message in enumerate(transcript):
        if message.role == "system" and NOTICE in message.metadata:
            yield replace(message, role="user"), {}
        elif message.role != "tool":
            yield message, _results_of(message, number, waiting)


def _results_of(
    message: Message, number: int, waiting: defaultdict[str, deque[tuple[int, ToolResultPart]]]
) -> Results:
    results: Results = {}
    if message.role != "assistant":
        return results
    for call in message.tool_calls:
        if call.provider_executed or call.id in results:
            continue
        found = waiting[call.id]
        while found and found[0][0] < number:
            found.popleft()
        results[call.id] = (
            found.popleft()[1] if found else ToolResultPart(call.id, NO_RESULT, error="not_executed")
        )
    return results


def wire_id(id: str, *, longest: int) -> str:
    """The id in letters every server takes. One that had to be changed stays unique by a hash of it."""
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", id)
    if plain == id and 0 < len(id) <= longest:
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: longest - 13]}_{digest}"


def wire_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown_tool"


def describe(part: ImagePart | FilePart) -> str:
    """What the model is told of something it cannot be shown."""
    kind = "image" if isinstance(part, ImagePart) else part.kind
    facts = [fact for fact in (part.name, part.mime_type, part.url) if fact]
    return f"[{kind} not shown{': ' + ', '.join(facts) if facts else ''}]"
