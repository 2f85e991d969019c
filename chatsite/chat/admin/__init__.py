"""Django admin: what happened, shown and never changed.

    filters       the sidebar, by questions that an index answers
    naming        what lists call the states of runs and calls
    subjects      whose content a page shows, and what of it may stand in a list
    records       threads
    runs          runs; `stopping` stops one
    messages      messages, tool calls
    questions     what people were asked, what they answered, their standing answers
    transcript    a thread as its people see it, with what each turn and run came to
    presets       those that an administrator shares
    exports       a thread as a file
    eventlog      what a run said, entry by entry
    requests      what a model was sent in a turn, put together again; `requests_page` shows it
    replay        what the page showed of a run, moment by moment; `playback` reads what is new from step to step

Rule 1: nobody edits a transcript here, not even a superuser.
Rule 2: content of others is opened with a permission and a reason, and that is on record (`adminkit.reading`).
Rule 3: a page costs what it shows, not what there is: no inlines (lists link to lists), no counts of
everything, no long columns in a list.
"""

from chatsite.chat.admin import messages, presets, questions, records, runs

__all__ = ["messages", "presets", "questions", "records", "runs"]
