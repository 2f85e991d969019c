"""The rows. Only the `actions`, `runner`, `recovery`, `runs.keeping`, `runs.ledger_rows`, `runs.requests`,
`counting.booking`, `counting.figures`, `care` (`personal`: who is erased), `files.attachments`, `files.removing`,
`transfer.moving`, `demothread` and the admin's `presets` write them.

    Thread ──< Run ──< RunEvent      what a run said, numbered; the truth while it is active
       │        ├────< Turn          one model call: what of its request the messages do not say
       │        ├────< ToolCall      the ledger: one row a call
       │        └────< Interrupt     a question the run ended with, and its one answer
       ├──────< Message              the transcript, a row a message, a tree by `parent`; the truth afterwards
       ├──────< ApprovalRule         "always allow this tool here", until it is taken back
       ├──────< Share                a link for readers
       └─────<> Attachment           a file that messages of it refer to
    RequestConfig                    what requests have in common: tools, system prompt, parameters
    Preset                           a person's saved choices: model, system prompt, tools, parameters

A thread's active branch is the path from `head` up to the root. While a run is active its messages are its
events, folded; when it ends (or a message of it is whole) they are rows. `store.load_state` joins the two.
"""

from chatsite.chat.models.calls import Interrupt, ToolCall
from chatsite.chat.models.ids import new_public_id, new_run_id
from chatsite.chat.models.messages import Message
from chatsite.chat.models.personal import Attachment, Preset
from chatsite.chat.models.runs import RequestConfig, Run, RunEvent, Turn
from chatsite.chat.models.threads import ApprovalRule, Share, Thread

__all__ = [
    "ApprovalRule",
    "Attachment",
    "Interrupt",
    "Message",
    "Preset",
    "RequestConfig",
    "Run",
    "RunEvent",
    "Share",
    "Thread",
    "ToolCall",
    "Turn",
    "new_public_id",
    "new_run_id",
]
