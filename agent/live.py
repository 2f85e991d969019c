"""Changes to the live messages of a transcript: what every fold of an event is made of.

Rule: one message is changed, and those beside it are shared. So a delta costs what the live messages cost, and nothing
of what came before.
"""

from __future__ import annotations

from agent import events
from agent.messages import Message, Part, Role, Transcript


def locate(transcript: Transcript, id: str) -> tuple[Transcript, int]:
    """The place of the message among the live ones, or -1. One that has settled is made live again."""
    live = transcript.live
    for at in range(len(live) - 1, -1, -1):
        if live[at].id == id:
            return transcript, at
    settled = transcript.settled
    for place in range(len(settled) - 1, -1, -1):
        if settled[place].id == id:
            return Transcript(settled[:place], live=settled[place:] + live), 0
    return transcript, -1


def opened(transcript: Transcript, id: str, role: Role) -> tuple[Transcript, int]:
    transcript, at = locate(transcript, id)
    if at >= 0:
        return transcript, at
    return transcript.append(Message(id, role)), len(transcript.live)


def put_part(transcript: Transcript, at: int, index: int, part: Part) -> Transcript:
    """Puts the part at the index of the live message; an index behind the last one appends."""
    message = transcript.live[at]
    parts = (*message.parts[:index], part, *message.parts[index + 1 :])
    return put(
        transcript, at, Message(message.id, message.role, parts, message.finish_reason, message.metadata)
    )


def noted(transcript: Transcript, at: int, metadata: events.Metadata) -> Transcript:
    message = transcript.live[at]
    return put(
        transcript, at, Message(message.id, message.role, message.parts, message.finish_reason, metadata)
    )


def put(transcript: Transcript, at: int, message: Message) -> Transcript:
    live = transcript.live
    return transcript.with_live((*live[:at], message, *live[at + 1 :]))
