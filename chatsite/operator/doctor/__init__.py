"""`manage.py doctor`: what is wrong, before a user finds it, and what to do.

    findings      one fact each: ok, worth a look, or wrong; in words, with what to do
    database      locks, migrations, the file system below SQLite, PostgreSQL's connections, clocks
    files         room, rights, static files, settings
    models        each endpoint of the chat and the gateway, asked for its models; hooks, tools
    tool_servers  each MCP server, asked for its tools
    site          through the address that people use: streams, sockets, origins, processes, static files

A check is a function that gives findings. One that breaks is a finding itself, and the next goes on.
"""
