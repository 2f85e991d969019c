"""`/v1/...` as an ASGI application of its own, in front of Django.

    POST      /v1/chat/completions           OpenAI's dialect
    POST      /v1/messages                   Anthropic's
    POST      /v1/messages/count_tokens
    GET       /v1/models, /v1/models/{id}    both, by the headers
    GET       /v1/health                     no key

Django's request handler costs five times what all of this does, so no request here passes it, and none waits for
the database. Every other path below /v1/ is an error in the caller's dialect too.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from agent.errors import AgentError
from chatsite.gateway.auth import Keys
from chatsite.gateway.caller import Caller, Gone, Receive, Send
from chatsite.gateway.doors import Doors, health
from chatsite.gateway.errors import Refused, refusal_of
from chatsite.gateway.hooks.loading import loaded_hooks
from chatsite.languages import speak_to

log = logging.getLogger(__name__)

Door = Callable[[Caller], Awaitable[None]]


class GatewayApp:
    """Give it every HTTP request whose path is `/v1` or begins with `/v1/`."""

    def __init__(self) -> None:
        loaded_hooks()  # a wrong entry stops the start, also where no system check runs
        doors = Doors(Keys())
        self._doors: dict[str, tuple[str, Door]] = {
            "/v1/chat/completions": ("POST", doors.completion),
            "/v1/messages": ("POST", doors.completion),
            "/v1/messages/count_tokens": ("POST", doors.count_tokens),
            "/v1/models": ("GET", doors.models),
            "/v1/health": ("GET", health),
        }
        self._one_model = ("GET", doors.model)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        caller = Caller(scope, receive, send)
        speak_to({}, program=True)
        try:
            await self._door(caller)(caller)
        except Gone:
            pass
        except Refused as refused:
            await caller.refuse(refused)
        except AgentError as error:
            await caller.refuse(refusal_of(error))
        except Exception:
            # The border: whatever it was, its text is for the log, and the caller gets an error it can read.
            log.exception("%s %r failed (%s)", caller.method, caller.path[:200], caller.request_id)
            await caller.refuse(
                Refused(
                    500,
                    "internal_error",
                    f"Something went wrong here; the log has it as {caller.request_id}.",
                )
            )

    def _door(self, caller: Caller) -> Door:
        found = self._doors.get(caller.path.rstrip("/"))
        if found is None and caller.path.startswith("/v1/models/"):
            found = self._one_model
        if found is None:
            raise Refused(404, "not_found", f"There is nothing at {caller.path[:200]}.")
        method, door = found
        if caller.method != method and not (caller.method == "HEAD" and method == "GET"):
            raise Refused(405, "method_not_allowed", f"Use {method} here.", headers={"allow": method})
        return door
