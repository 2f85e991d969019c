"""The counts of `limits`, shared by all processes in Redis.

    {prefix}:{pk}:requests, :tokens     a hash, second -> amount, as `windows` has it
    {prefix}:{pk}:money:{period}        what is spent in the period
    {prefix}:{pk}:open                  who is under way: lease -> until when, renewed every `RENEW` seconds
    {prefix}:{pk}:held                  lease -> what it holds of the budget

A lease ends by itself, so that a process that died holds nobody's place for longer than `LEASE` seconds.
Each question is one script, so that of two processes only one gets the last request of a minute. The clock is
Redis's. A Redis that does not answer is left alone for some seconds: the process's own counts hold meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from redis import asyncio as redis
from redis.exceptions import RedisError

from chatsite.accounts.keys import KeyView, period_of
from chatsite.gateway.conf import setting
from chatsite.gateway.windows import SOON, Over

log = logging.getLogger(__name__)

PREFIX = "threadloom:limits"
TIMEOUT = 0.5
LEFT_ALONE = 5.0
LEASE = 30.0
RENEW = 10.0

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
local lease, at_once, open, held = ARGV[6], tonumber(ARGV[8]), 0, 0
if lease ~= '' then
  for _, ended in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now)) do
    redis.call('ZREM', KEYS[4], ended)
    redis.call('HDEL', KEYS[5], ended)
  end
  open = redis.call('ZCARD', KEYS[4])
  local all = redis.call('HGETALL', KEYS[5])
  for i = 1, #all, 2 do
    if all[i] ~= lease then held = held + tonumber(all[i + 1]) end
  end
end
if ARGV[4] ~= '' then
  local budget = tonumber(ARGV[4])
  local spent = math.max(tonumber(redis.call('GET', KEYS[3]) or '0'), tonumber(ARGV[5]))
  if spent >= budget then return {'budget', '0'} end
  if spent + held >= budget then return {'held', ARGV[9]} end
end
if most_tokens > 0 then
  local seconds = wait(KEYS[2], most_tokens, 1)
  if seconds > 0 then return {'tokens', tostring(seconds)} end
end
if at_once > 0 and requests > 0 and open >= at_once then return {'at_once', ARGV[9]} end
if most_requests > 0 and requests > 0 then
  local seconds = wait(KEYS[1], most_requests, requests)
  if seconds > 0 then return {'requests', tostring(seconds)} end
  redis.call('HINCRBY', KEYS[1], time[1], requests)
  redis.call('EXPIRE', KEYS[1], 120)
end
if lease ~= '' and requests > 0 then
  redis.call('ZADD', KEYS[4], now + tonumber(ARGV[10]), lease)
  redis.call('HSET', KEYS[5], lease, ARGV[7])
  redis.call('EXPIRE', KEYS[4], 120)
  redis.call('EXPIRE', KEYS[5], 120)
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
  local held = ARGV[4] ~= '' and redis.call('HGET', KEYS[3], ARGV[4])
  if held then redis.call('HSET', KEYS[3], ARGV[4], math.max(0, tonumber(held) - tonumber(ARGV[2]))) end
end
"""

RENEWED = """
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 'XX', time[1] + time[2] / 1000000 + tonumber(ARGV[2]), ARGV[1])
redis.call('EXPIRE', KEYS[1], 120)
redis.call('EXPIRE', KEYS[2], 120)
"""

LEAVE = """
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
"""


class SharedLimits:
    """Of one event loop: a connection belongs to the loop that opened it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._redis = redis.Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
        self._check = self._redis.register_script(CHECK)
        self._book = self._redis.register_script(BOOK)
        self._renewed = self._redis.register_script(RENEWED)
        self._leave = self._redis.register_script(LEAVE)
        self._leases: dict[str, KeyView] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._away_until = 0.0
        self._booking: set[asyncio.Task[Any]] = set()

    async def check(
        self,
        view: KeyView,
        requests: int,
        lease: str,
        hold: Decimal,
        *,
        otherwise: Callable[[], Over | None],
    ) -> Over | None:
        """As the shared counts have it; by `otherwise` when they cannot be asked. Counts the requests; `lease` takes a
        place with the first of them."""
        asked = [
            requests,
            view.requests_per_minute or 0,
            view.tokens_per_minute or 0,
            "" if view.budget is None else str(view.budget),
            str(view.spent),
            lease,
            str(hold),
            view.requests_at_once or 0,
            str(SOON),
            str(LEASE),
        ]
        keys = [_name(view, "requests"), _name(view, "tokens"), _money(view), *_leases(view)]
        found = await self._ask(lambda: self._check(keys=keys, args=asked))
        if found is None:
            return otherwise()
        what, wait = (part.decode() for part in found)
        if not what and lease and requests:
            self._keep(view, lease)
        return Over(what, float(wait)) if what else None

    def book(self, view: KeyView, tokens: int, cost: Decimal, lease: str) -> None:
        names = [_name(view, "tokens"), _money(view), _name(view, "held")]
        amounts = [tokens, str(cost), str(view.spent), lease]
        self._soon(lambda: self._book(keys=names, args=amounts))

    def leave(self, view: KeyView, lease: str) -> None:
        self._leases.pop(lease, None)
        self._soon(lambda: self._leave(keys=_leases(view), args=[lease]))

    def _soon(self, ask: Callable[[], Awaitable[Any]]) -> None:
        """Whoever books or leaves may be about to be cancelled, and does not wait."""
        task = asyncio.ensure_future(self._ask(ask))
        self._booking.add(task)
        task.add_done_callback(self._booking.discard)

    def _keep(self, view: KeyView, lease: str) -> None:
        self._leases[lease] = view
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())

    async def _renew(self) -> None:
        while self._leases:
            await asyncio.sleep(RENEW)
            for lease, view in list(self._leases.items()):
                names, amounts = _leases(view), [lease, str(LEASE)]
                await self._ask(partial(self._renewed, keys=names, args=amounts))

    async def settled(self) -> None:
        """Until everything booked so far is told."""
        await asyncio.gather(*self._booking)

    async def close(self) -> None:
        await self.settled()
        if self._renewing is not None:
            self._renewing.cancel()
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


def _leases(view: KeyView) -> list[str]:
    return [_name(view, "open"), _name(view, "held")]


def _money(view: KeyView) -> str:
    return _name(view, f"money:{period_of(view)}")
