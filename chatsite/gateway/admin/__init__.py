"""Django admin: what went through the gateway, shown and never changed.

exchanges       the lists (filters), and who may look into an exchange
exchange_page   one exchange whole: what was said, each round, each call that ran here
conversation    kept texts as messages, as far as they can be read
hooks           what is loaded, in the order in which it is asked
"""

from chatsite.gateway.admin import exchanges, hooks

__all__ = ["exchanges", "hooks"]
