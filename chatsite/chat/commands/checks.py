"""What a command says, checked and looked up: what is handed to its action. Refusals are in words."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from agent.approvals import Resolution
from agent.messages import Message, Part, TextPart
from chatsite.chat import access, db
from chatsite.chat.commands.values import OneAnswer, Said
from chatsite.chat.conf import setting
from chatsite.chat.files import attachments
from chatsite.chat.models import Thread, new_public_id
from chatsite.chat.problems import Invalid, TooLong
from chatsite.phrases import number


def check_text(text: str) -> None:
    """Raises Invalid or TooLong, in words, for a text that cannot be sent."""
    limit = setting("CHAT_MESSAGE_MAX_CHARS")
    if not text.strip():
        raise Invalid(gettext("The message is empty. Write something, then send."))
    if len(text) > limit:
        words = gettext(
            "The message has %(size)s characters; %(most)s is the most. Shorten it or send it in pieces."
        )
        raise TooLong(words % {"size": number(len(text)), "most": number(limit)})
    if "\x00" in text:
        raise Invalid(
            gettext("The message holds a NUL character, which cannot be stored. Remove it and send again.")
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(
            gettext("The message holds half a character (a lone surrogate). Remove it and send again.")
        )


def resolutions(thread: Thread, answers: list[OneAnswer]) -> list[Resolution]:
    calls = dict(
        thread.interrupts.filter(public_id__in=[answer.interrupt_id for answer in answers]).values_list(
            "public_id", "tool_call_id"
        )
    )
    return [
        Resolution(
            tool_call_id=calls.get(answer.interrupt_id, ""),
            interrupt_id=answer.interrupt_id,
            status=answer.status,
            edited_args=answer.edited_args if answer.status == "approved" else None,
            reason=answer.reason if answer.status == "denied" else "",
        )
        for answer in answers
    ]


def tools_to_allow(thread: Thread, answers: list[OneAnswer]) -> set[str]:
    ids = [answer.interrupt_id for answer in answers if answer.always and answer.status == "approved"]
    return set(thread.interrupts.filter(public_id__in=ids).values_list("tool_name", flat=True))


async def sent_of(user: Any, command: Said, message: Message | None) -> dict[str, Any]:
    """What of a send goes to its action, checked."""
    parts: tuple[Part, ...] = ()
    if command.attachments:
        parts = await db.read(attachments.parts_of, user, command.attachments)
    if message is not None:
        parts = message.parts
    text = message.text if message is not None else command.text
    if text.strip() or all(isinstance(part, TextPart) for part in parts):
        check_text(text)
    if command.client_id and not access.sane_id(command.client_id):
        raise Invalid(gettext("The message's id must be 1 to 200 printable characters."))
    client_id = command.client_id or new_public_id()
    if command.text.strip() and message is None:
        parts = (*parts, TextPart(command.text))
    return {"client_id": client_id, "message": message or Message(id=client_id, role="user", parts=parts)}
