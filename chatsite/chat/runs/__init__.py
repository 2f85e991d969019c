"""What `runner` makes a run of, from its first word to its kept end.

opening     what it begins with
recorder    its log: kept, then told        keeping      the one write of the token path
liverun     it as it stands in memory
ledger      which of its calls changed, and how          ledger_rows  what is known of calls
requests    what each turn was asked, to be shown exactly       responses  what came back
unfinished  the end of one that nobody works on any more
titles      its thread's name, in a model's words
"""
