"""What a door may have to say no to, with the words for the person and the code for the program.

Each is raised by actions or commands; a door turns it into its own shape by `status` and `code`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.utils.translation import gettext_lazy as _


class Problem(Exception):
    status = HTTPStatus.BAD_REQUEST
    code = "invalid_request"
    words: Any = _("That cannot be done.")
    retry_after: int | None = None
    """Seconds after which the same may work, when that is known."""

    def __init__(self, words: str | None = None) -> None:
        super().__init__(words or self.words)

    @property
    def headers(self) -> dict[str, str]:
        """What an answer over HTTP says besides."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class Invalid(Problem):
    status = HTTPStatus.UNPROCESSABLE_ENTITY


class TooLong(Problem):
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    code = "too_large"


class Missing(Problem):
    status = HTTPStatus.NOT_FOUND
    code = "not_found"
    words: Any = _("There is no such thread.")


class KeyRefused(Problem):
    """An API key that does not open the chat, or not now."""


class TooManyKeys(KeyRefused):
    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "too_many_attempts"
    words: Any = _("Too many API keys that are not valid came from your address. Try again later.")

    def __init__(self, retry_after: int) -> None:
        super().__init__()
        self.retry_after = retry_after


class KeyOutOfScope(KeyRefused):
    status = HTTPStatus.FORBIDDEN
    code = "key_scope"
    words: Any = _(
        "This API key does not open the chat. Use one with the scope `chat`, or ask an administrator to add it."
    )


class Busy(Problem):
    status = HTTPStatus.CONFLICT
    code = "run_active"
    words: Any = _("An answer is still being written here. Wait for it or stop it, then send again.")


class Conflict(Problem):
    status = HTTPStatus.CONFLICT
    code = "conflict"


class NothingToRetry(Problem):
    status = HTTPStatus.CONFLICT
    code = "nothing_to_retry"


class NothingToContinue(Problem):
    status = HTTPStatus.CONFLICT
    code = "nothing_to_continue"
    words: Any = _(
        "There is no lost answer at the end of this thread to continue. Reload the page to see what came of it."
    )


class Unanswerable(Problem):
    """An answer to a question that cannot be taken; `code` says why (`agent.approvals.check_resolutions`)."""

    status = HTTPStatus.CONFLICT

    def __init__(self, words: str, code: str) -> None:
        super().__init__(words)
        self.code = code


class UnknownModel(Problem):
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    code = "model_not_found"


class OverQuota(Problem):
    """A limit of the person, their group or their key is reached."""

    status = HTTPStatus.TOO_MANY_REQUESTS
    code = "quota_exceeded"

    def __init__(self, words: str, retry_after: int) -> None:
        super().__init__(words)
        self.retry_after = retry_after


class NoPreset(Problem):
    status = HTTPStatus.NOT_FOUND
    code = "preset_not_found"


class NotStored(Problem):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "database_unavailable"
    words: Any = _(
        "The server cannot reach its database just now. Your message is not sent; try again in a moment."
    )
    retry_after = 2


class Restarting(Problem):
    status = HTTPStatus.SERVICE_UNAVAILABLE
    code = "restarting"
    words: Any = _("The server is restarting. Nothing was sent; try again in a few seconds.")
    retry_after = 5
