"""Where requests may go, whatever the name looks like that leads there."""

from __future__ import annotations

import socket

import pytest

from agent.errors import ProviderUnreachable
from agent.providers.addresses import Kind, Reach, kind_of
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpProvider, close_shared_clients
from agent.wire import openai_chat
from tests.standin import StandIn

PUBLIC = [
    "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2001:0:4136:e378:8000:63bf:f7f7:f7f7",
]  # fmt: skip
PRIVATE = [
    "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fc00::1", "fec0::1",
    "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fe80::1%eth0",
    "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "100.100.100.200", "fd00:ec2::254",
    "168.63.129.16", "2001:0:4136:e378:8000:63bf:5601:5601",
]  # fmt: skip


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        *((address, Kind.PUBLIC) for address in PUBLIC),
        *((address, Kind.PRIVATE) for address in PRIVATE),
        *((address, Kind.NEVER) for address in NEVER),
    ],
)
def test_an_address_is_known_in_each_of_its_forms(address, kind):
    assert kind_of(address) is kind


@pytest.fixture(autouse=True)
async def _close():
    yield
    await close_shared_clients()


@pytest.fixture
async def standin():
    async with StandIn() as server:
        yield server


def provider_at(url: str, reach: Reach) -> HttpProvider:
    return HttpProvider(openai_chat, Endpoint("it", url, reach=reach), retries=0)


# Each is this machine, in the eyes of the system's resolver.
NAMES = ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "017700000001", "[::ffff:127.0.0.1]"]


@pytest.mark.parametrize("name", NAMES)
async def test_no_spelling_leads_a_public_endpoint_into_this_machine(name, standin):
    port = standin.openai_url.split(":")[2].split("/")[0]
    with pytest.raises(ProviderUnreachable):
        await provider_at(f"http://{name}:{port}/v1", Reach.PUBLIC).models()
    assert standin.exchanges == []


async def test_a_name_that_leads_elsewhere_by_the_second_question_is_refused(standin, monkeypatch):
    """Whoever looked at the name before saw a public address; the connection is made to another."""
    answers = [
        [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))] for address in ("8.8.8.8", "127.0.0.1")
    ]
    assert kind_of(answers.pop(0)[0][4][0]) is Kind.PUBLIC
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answers[0])
    port = standin.openai_url.split(":")[2].split("/")[0]
    with pytest.raises(ProviderUnreachable, match="private network"):
        await provider_at(f"http://rebound.example:{port}/v1", Reach.PUBLIC).models()
    assert standin.exchanges == []


@pytest.mark.parametrize("reach", [Reach.ANYWHERE, Reach.NEAR])
async def test_who_may_reach_a_private_network_does(reach, standin):
    assert await provider_at(standin.openai_url, reach).models()


async def test_a_cloud_s_keys_are_out_of_every_reach_but_the_operator_s():
    with pytest.raises(ProviderUnreachable, match="where no endpoint is"):
        await provider_at("http://169.254.169.254/v1", Reach.NEAR).models()
