"""Commands: what a person or program may ask of a thread, by whatever door.

A door (page, `/api/chat`, WebSocket) validates what came into one of these, and hands it to `commands.perform`.

    send    {"type": "send", "text", "clientId"?, "model"?, "attachments"?}
                                                                a message, and the run that answers it; `attachments`
                                                                are ids of files that were uploaded before
    stop    {"type": "stop", "runId"?}                          end the active run (that one), keep what it wrote
    retry   {"type": "retry", "messageId"?, "model"?}           answer the last message (the one meant) anew
    edit    {"type": "edit", "messageId", "text", "clientId"?, "model"?, "attachments"?}
                                                                ask something else in its place, on a branch of its own
    branch  {"type": "branch", "messageId"}                     show the branch that holds this message
    remove  {"type": "remove", "messageId"}                     delete it with all that stands behind it
    restore {"type": "restore", "messageId"}                    take that back
    fork    {"type": "fork", "messageId"}                       a new thread with everything up to this message
    continue {"type": "continue", "runId"?, "model"?}           go on with the thread's last run, which was lost
    answer  {"type": "answer", "answers": [{"interruptId", "status", "editedArgs"?, "reason"?, "always"?}]}
                                                                settle all open questions, and go on
    forget  {"type": "forget", "tool"}                          take an "always allow" back
    organize {"type": "organize", "title"?, "pinned"?, "archived"?, "deleted"?}
                                                                name it, pin it, put it away, throw it away
    configure {"type": "configure", "model"?, "system"?, "toolsOff"?, "parameters"?, "preset"?}
                                                                how it answers from now on; a preset first
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from agent.text import storable
from agent.wire.jsontext import plain
from chatsite.chat.choices import LONGEST_SYSTEM, Parameters, Text


class _Command(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Said(_Command):
    text: str
    client_id: str = ""
    model: Text = ""
    attachments: list[Text] = Field(default=[], max_length=100)


class Send(Said):
    """`preset`: the name of the one whose choices a new thread begins with; one that is there has its own."""

    type: Literal["send"] = "send"
    preset: Text = ""


class Stop(_Command):
    """`run_id` names the run that is meant: a stop that comes late then stops no other."""

    type: Literal["stop"] = "stop"
    run_id: Text | None = None


class Retry(_Command):
    """`message_id`: the user message to answer anew, or an answer to have anew; without it the last one."""

    type: Literal["retry"] = "retry"
    model: Text = ""
    message_id: Text | None = None


class Edit(Said):
    """The files of the message that is edited stay; further ones come along."""

    type: Literal["edit"] = "edit"
    message_id: Text


class Branch(_Command):
    type: Literal["branch"] = "branch"
    message_id: Text


class Remove(_Command):
    type: Literal["remove"] = "remove"
    message_id: Text


class Restore(_Command):
    type: Literal["restore"] = "restore"
    message_id: Text


class Fork(_Command):
    type: Literal["fork"] = "fork"
    message_id: Text


class Continue(_Command):
    """`run_id` names the lost run that is meant; the model is that run's own unless another is named."""

    type: Literal["continue"] = "continue"
    run_id: Text | None = None
    model: Text = ""


Value = Annotated[dict[str, Any], AfterValidator(partial(plain, text=storable))]


class OneAnswer(_Command):
    """A person's answer to one question. `edited_args` replace the arguments as a whole; `always` allows the tool in
    this thread from now on."""

    interrupt_id: Text
    status: Literal["approved", "denied", "cancelled"]
    edited_args: Value | None = None
    reason: Text = Field(default="", max_length=2000)
    always: bool = False


class Answer(_Command):
    type: Literal["answer"] = "answer"
    answers: list[OneAnswer] = Field(min_length=1, max_length=100)


class Forget(_Command):
    type: Literal["forget"] = "forget"
    tool: Text


class Organize(_Command):
    """What is given changes, the rest stays. Of a thread that is deleted nothing is left to command."""

    type: Literal["organize"] = "organize"
    title: Text | None = None
    pinned: bool | None = None
    archived: bool | None = None
    deleted: bool = False


class Configure(_Command):
    """What is given changes, the rest stays; `parameters` change as a whole. Of a `preset` a thread gets all."""

    type: Literal["configure"] = "configure"
    model: Text | None = None
    system: Text | None = Field(default=None, max_length=LONGEST_SYSTEM)
    tools_off: list[Text] | None = None
    parameters: Parameters | None = None
    preset: Text | None = None


Steer = Branch | Remove | Restore
Command = Send | Stop | Retry | Edit | Steer | Fork | Continue | Answer | Forget | Organize | Configure
CommandAdapter: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="type")])
