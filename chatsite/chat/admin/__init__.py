"""Django admin: what happened, shown and never changed.

    filters       the sidebar, by questions that an index answers
    records       threads, runs, messages, tool calls
    questions     what people were asked, what they answered, their standing answers
    transcript    a thread as its people see it, with what each turn and run came to
    eventlog      what a run said, entry by entry

Rule 1: nobody edits a transcript here, not even a superuser.
Rule 2: a page costs what it shows, not what there is: no inlines (lists link to lists), no counts of
everything, no long columns in a list.
"""

from chatsite.chat.admin import questions, records

__all__ = ["questions", "records"]
