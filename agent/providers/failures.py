"""What a request that got no answer ends in, as the model's user and the loop read it."""

from __future__ import annotations

import aiohttp

from agent.errors import BadStream, ProviderError, ProviderTimeout, ProviderUnreachable
from agent.providers.addresses import was_refused
from agent.providers.endpoint import Timeouts

AWAY = (
    "The address of the model's endpoint leads into a private network, or to where no endpoint is. "
    "The operator allows private ones with PRIVATE_ENDPOINTS=true."
)


def failure_of(error: BaseException, timeouts: Timeouts) -> ProviderError:
    """Of one of `answers.NETWORK_ERRORS`, or a TimeoutError of whoever waited for the first byte."""
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
        # Whoever waited that long is not made to wait as long again.
        return _for_good(
            ProviderTimeout(
                f"The model's endpoint did not begin to answer within {timeouts.first_byte:g} seconds."
            )
        )
    if isinstance(error, aiohttp.ServerTimeoutError):
        return ProviderTimeout(
            f"The model's endpoint could not be reached within {timeouts.connect:g} seconds."
        )
    if was_refused(error):
        return _for_good(ProviderUnreachable(AWAY))
    if isinstance(error, aiohttp.InvalidURL):
        return _for_good(ProviderUnreachable("The address of the model's endpoint is not valid."))
    if isinstance(error, aiohttp.ClientResponseError):
        return BadStream("The model's endpoint does not speak HTTP. Is its address right?")
    return ProviderUnreachable("The model's endpoint could not be reached.")


def _for_good(error: ProviderError) -> ProviderError:
    error.retryable = False
    return error
