"""Who did what here, and when: a list that only grows.

models     the entries, and the head of their chain
log        `record`: the one place that writes them
chain      what an entry's hash covers, and the head's seal
verifying  walks the chain and says where it breaks
guards     the database's own refusal to change or delete an entry

It knows nothing of what it writes down: chat, gateway, accounts and policies tell it, in dotted words ("key.made").
Never content: no text of a message, no arguments of a call, no secret.
"""
