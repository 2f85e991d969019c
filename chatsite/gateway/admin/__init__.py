"""Django admin: what went through the gateway, shown and never changed.

exchanges       the list, and one exchange whole: what was said, each round, each call that ran here
conversation    kept texts as messages, as far as they can be read
hooks           what is loaded, in the order in which it is asked
"""

from chatsite.gateway.admin import exchanges, hooks

__all__ = ["exchanges", "hooks"]
