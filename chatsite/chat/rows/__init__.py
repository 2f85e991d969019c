"""Rows <-> values, and the statements that are worth more than the ORM's.

values      a message, a run as a reader sees it, what it used
packing     a run's log: an event is a row, an unbroken line of deltas is one     kept_log  read from any place in it
questions   what a person is asked
tree        a thread's messages as the tree they are            branches  its paths, from the database
search      full-text search over a person's messages      snippets  what is shown of a hit, in plain words
statements  the writes of the token path, built once a process
"""
