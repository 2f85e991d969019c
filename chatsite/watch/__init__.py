"""Watching a process at work: what it counts, and which request, run and thread a line of its log is about.

    counters     what is counted, where it happens; a number and a lock, no library
    exposition   those numbers in Prometheus' form, made when they are asked for
    ids          the request, run and thread that this piece of work belongs to
    logs         the two forms of a line: for people, for machines

Knows no app, so the chat and the gateway both count here. Numbers are of one process: Prometheus asks each.
"""
