"""Threads and their runs: an app that any site can install.

doors      views (the page), api (programs), consumers (WebSocket), readers (who follows a thread), urls, routing
           access     who may                      problems   what a door may have to say no to
           files      what people attach           transfer   a thread as a file
asked      commands   checked once for every door  actions    what it does, one transaction each
a run      runner     the task    runs     what it is made of      eventlog   what it said, to whom it concerns
           agents     models and the agent; sources, choices: where they are from, how they are to answer
           limits     how far it may go            counting   what it came to
a process  process    its rounds, its end          recovery   those of a dead one         care  how long what is kept
rows       models     rows        rows: rows <-> values         store   a thread from its rows       db   off the loop
shown      state      values of all that is shown  render     their HTML         templatetags, admin
itself     apps, conf, checks, migrations, management, tools, demothread (a thread with each state in it)
"""
