"""The counts of `limits`, shared by all processes in Redis.

    {prefix}:{pk}:requests, :tokens     a hash, second -> amount, as `windows` has it
    {prefix}:{pk}:money:{period}        what is spent in the period

Each question is one script, so that of two processes only one gets the last request of a minute. The clock is
Redis's. A Redis that does not answer is left alone for some seconds: the process's own counts hold meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any
from weakref import WeakKeyDictionary

from redis import asyncio as redis
from redis.exceptions import RedisError

from chatsite.accounts.keys import KeyView, period_of
from chatsite.gateway.conf import setting
from chatsite.gateway.windows import Over

log = logging.getLogger(__name__)

PREFIX = "threadloom:limits"
TIMEOUT = 0.5
LEFT_ALONE = 5.0

CHECK = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000

local function wait(key, limit, more)
  local left, kept = 0, {}
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    local second, amount = tonumber(all[i]), tonumber(all[i + 1])
    if second <= now - 60 then redis.call('HDEL', key, all[i])
    else left = left + amount; kept[#kept + 1] = {second, amount} end
  end
  if left + more <= limit then return 0 end
  table.sort(kept, function(a, b) return a[1] < b[1] end)
  for _, each in ipairs(kept) do
    left = left - each[2]
    if left + more <= limit then return math.max(0.001, each[1] + 60 - now) end
  end
  return 60
end

local requests, most_requests, most_tokens = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if ARGV[4] ~= '' then
  local spent = math.max(tonumber(redis.call('GET', KEYS[3]) or '0'), tonumber(ARGV[5]))
  if spent >= tonumber(ARGV[4]) then return {'budget', '0'} end
end
if most_tokens > 0 then
  local seconds = wait(KEYS[2], most_tokens, 1)
  if seconds > 0 then return {'tokens', tostring(seconds)} end
end
if most_requests > 0 and requests > 0 then
  local seconds = wait(KEYS[1], most_requests, requests)
  if seconds > 0 then return {'requests', tostring(seconds)} end
  redis.call('HINCRBY', KEYS[1], time[1], requests)
  redis.call('EXPIRE', KEYS[1], 120)
end
return {'', '0'}
"""

BOOK = """
local time = redis.call('TIME')
if tonumber(ARGV[1]) > 0 then
  redis.call('HINCRBY', KEYS[1], time[1], ARGV[1])
  redis.call('EXPIRE', KEYS[1], 120)
end
if tonumber(ARGV[2]) > 0 then
  if tonumber(redis.call('GET', KEYS[2]) or '-1') < tonumber(ARGV[3]) then redis.call('SET', KEYS[2], ARGV[3]) end
  redis.call('INCRBYFLOAT', KEYS[2], ARGV[2])
  redis.call('EXPIRE', KEYS[2], 3456000)
end
"""


class SharedLimits:
    """Of one event loop: a connection belongs to the loop that opened it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._redis = redis.Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
        self._check = self._redis.register_script(CHECK)
        self._book = self._redis.register_script(BOOK)
        self._away_until = 0.0
        self._booking: set[asyncio.Task[Any]] = set()

    async def check(
        self, view: KeyView, requests: int, *, otherwise: Callable[[], Over | None]
    ) -> Over | None:
        """As the shared counts have it; by `otherwise` when they cannot be asked. Counts the requests."""
        budget = "" if view.budget is None else str(view.budget)
        asked = [
            requests,
            view.requests_per_minute or 0,
            view.tokens_per_minute or 0,
            budget,
            str(view.spent),
        ]
        keys = [_name(view, "requests"), _name(view, "tokens"), _money(view)]
        found = await self._ask(lambda: self._check(keys=keys, args=asked))
        if found is None:
            return otherwise()
        what, wait = (part.decode() for part in found)
        return Over(what, float(wait)) if what else None

    def book(self, view: KeyView, tokens: int, cost: Decimal) -> None:
        """Soon: whoever books may be about to be cancelled, and does not wait."""
        names, amounts = [_name(view, "tokens"), _money(view)], [tokens, str(cost), str(view.spent)]
        task = asyncio.ensure_future(self._ask(lambda: self._book(keys=names, args=amounts)))
        self._booking.add(task)
        task.add_done_callback(self._booking.discard)

    async def settled(self) -> None:
        """Until everything booked so far is told."""
        await asyncio.gather(*self._booking)

    async def close(self) -> None:
        await self.settled()
        await self._redis.aclose()

    async def _ask(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer; None when there is none, or Redis is being left alone."""
        if time.monotonic() < self._away_until:
            return None
        try:
            return await ask() or b""
        except (TimeoutError, RedisError, OSError) as error:
            self._away_until = time.monotonic() + LEFT_ALONE
            log.warning(
                "Redis does not answer (%s): limits are held by each process alone", type(error).__name__
            )
            return None


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedLimits] = WeakKeyDictionary()


def client() -> SharedLimits | None:
    """The one of this event loop; None without REDIS_URL, or outside of a loop."""
    url = setting("REDIS_URL")
    if not url:
        return None
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    known = _clients.get(loop)
    if known is None or known.url != url:
        known = _clients[loop] = SharedLimits(url)
    return known


def _name(view: KeyView, what: str) -> str:
    return f"{PREFIX}:{{{view.pk}}}:{what}"


def _money(view: KeyView) -> str:
    return _name(view, f"money:{period_of(view)}")
