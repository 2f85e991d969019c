"""What one endpoint is given or gives stays with it: how far its requests reach, its cookies, its key."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from yarl import URL

from agent.errors import ProviderUnreachable
from agent.providers.addresses import Reach
from agent.providers.answers import Direct
from agent.providers.endpoint import Timeouts
from chatsite.gateway import upstream
from chatsite.gateway.endpoints import make_endpoint
from tests.gateway.served import CHAT, MODEL, asking, serve
from tests.standin import Broken, StandIn

pytestmark = pytest.mark.usefixtures("http")  # which closes what the loop shares


async def sent(url: str, reach: Reach = Reach.ANYWHERE) -> Direct:
    timeouts, patience = Timeouts(30, 30, 30), aiohttp.ClientTimeout()
    return await upstream.send(URL(url), json.dumps(asking()).encode(), {}, timeouts, patience, reach)


async def test_what_one_endpoint_may_reach_another_may_not(standin):
    """Also where a connection to that very place is open already, and may be used again."""
    url = f"{standin.openai_url}/chat/completions"
    answer = await sent(url, Reach.NEAR)
    await upstream.whole(answer)
    answer.leave()
    asked = len(standin.exchanges)
    with pytest.raises(ProviderUnreachable):
        await sent(url, Reach.PUBLIC)
    assert len(standin.exchanges) == asked


async def test_a_cookie_of_one_endpoint_goes_to_no_other_and_not_back_to_it():
    """By their name: cookies know no ports, and of an address aiohttp keeps none."""
    heads: list[bytes] = []

    async def endpoint(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: session=of-one; Path=/\r\nContent-Length: 2\r\n")
        writer.write(b"Connection: close\r\n\r\n{}")
        writer.close()

    servers = [await asyncio.start_server(endpoint, "127.0.0.1", 0) for _ in range(2)]
    one, other = (f"http://localhost:{server.sockets[0].getsockname()[1]}/v1" for server in servers)
    for url in (one, other, one):
        (await sent(url)).leave()
    for server in servers:
        server.close()
    assert len(heads) == 3
    assert not any(b"cookie" in head.lower() for head in heads)


async def test_where_one_endpoint_fails_the_next_is_asked_with_its_own_key_and_headers(http, standin):
    async with StandIn() as other:
        serve(
            *(
                make_endpoint(
                    name,
                    "openai",
                    server.openai_url,
                    api_key=f"sk-of-{name}",
                    headers={f"x-{name}": "1"},
                    listed=(MODEL,),
                )
                for name, server in (("one", standin), ("two", other))
            )
        )
        standin.play(Broken("500"))
        assert (await http.post(CHAT, json=asking())).status_code == 200
        asked = {name: server.exchanges[-1].headers for name, server in (("one", standin), ("two", other))}
    for name, not_its in (("one", "two"), ("two", "one")):
        assert asked[name]["authorization"] == f"Bearer sk-of-{name}"
        assert asked[name][f"x-{name}"] == "1"
        assert f"x-{not_its}" not in asked[name]
        assert f"sk-of-{not_its}" not in str(dict(asked[name]))
