"""Tools of other servers, at a real server of the official SDK over real HTTP and real standard streams."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import types as mcp

from agent.abort import AbortSignal
from agent.errors import ToolError
from agent.mcp import ConfigError, Known, Servers, read_servers
from agent.mcp.listing import names_of
from agent.mcp.listing import tools_of as tools_listed
from agent.mcp.results import value_of
from agent.mcp.session import list_tools
from agent.messages import ImagePart, TextPart
from agent.tools import InvalidArguments, Tool, ToolContext, ToolOutput
from tests.mcp_server import PNG, ROOT, SECRET, StandIn, be_patient, command, stand_in

URL = "http://127.0.0.1:1/mcp"
WITHIN = 60.0
"""Seconds that anything here may take, on a machine that has other things to do."""


# -- what an operator writes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("files", "it is no JSON list or object of servers"),
        ([1], "server 1 is no JSON object"),
        ([{"url": URL}], "server 1 has no valid name"),
        ([{"name": "a__b", "url": URL}], "has no valid name"),
        ([{"name": "a_", "url": URL}], "has no valid name"),
        ([{"name": "n" * 21, "url": URL}], "has no valid name"),
        ([{"name": "a", "url": URL}, {"name": "A", "url": URL}], "two servers are called 'a'"),
        ({"a": {}}, "write url, or command, and not both"),
        ({"a": {"url": URL, "command": "x"}}, "write url, or command, and not both"),
        ({"a": {"url": "ftp://h/"}}, "url must be http"),
        ({"a": {"url": "http://user:s3cret@h/"}}, "url must be http"),
        ({"a": {"url": "http://h:99999999/"}}, "url must be http"),
        ({"a": {"url": URL, "headers": {"Host": "x"}}}, "none that the protocol sets itself"),
        ({"a": {"url": URL, "headers": {"X": "s3cret\r\nY: z"}}}, "headers must be an object"),
        ({"a": {"url": URL, "headers": {"X": 1}}}, "headers must be an object"),
        ({"a": {"url": URL, "env": {"X": "1"}}}, "env belongs to a server with command"),
        ({"a": {"command": "x", "headers": {}}}, "headers belongs to a server with url"),
        ({"a": {"command": "x", "args": "-v"}}, "args must be a list of texts"),
        ({"a": {"command": ""}}, "command must be"),
        ({"a": {"url": URL, "tools": "add"}}, "tools must be a list of names"),
        ({"a": {"url": URL, "needs_approval": "no"}}, "needs_approval must be true or false"),
        ({"a": {"url": URL, "timeout": 0}}, "timeout must be a number"),
        ({"a": {"url": URL, "timeout": True}}, "timeout must be a number"),
        ({"a": {"url": URL, "type": "sse"}}, "the older HTTP+SSE transport is not spoken here"),
        ({"a": {"url": URL, "type": "stdio"}}, "type must be http"),
        ({"a": {"url": URL, "header": {}}}, "there is no field 'header'; there are args, command, env"),
    ],
)
def test_what_is_no_server_is_refused_in_words_without_its_values(given, why):
    with pytest.raises(ConfigError) as error:
        read_servers(given)
    assert why in str(error.value)
    assert "s3cret" not in str(error.value)


def test_a_list_and_an_object_say_the_same_and_secrets_are_not_shown():
    entry = {"url": "https://h:8443/mcp?key=s3cret", "headers": {"Authorization": SECRET}, "type": "http"}
    [config] = read_servers([{"name": "a", **entry}])
    assert read_servers({"a": entry}) == (config,)
    assert (config.place, config.needs_approval, config.timeout) == ("https://h:8443", True, 60.0)
    assert "s3cret" not in repr(config)
    [started] = read_servers({"b": {"command": "x", "args": ["s3cret"], "env": {"TOKEN": "s3cret"}}})
    assert "s3cret" not in repr(started) + started.place


def test_names_are_ones_that_every_provider_takes_and_stay_the_same():
    theirs = ["a.b", "a_b", "n" * 90, "m" * 90, "ünï", "ok"]
    ours = names_of("files", theirs)
    assert ours == names_of("files", reversed(theirs))
    assert ours["ok"] == "files__ok"
    assert ours["a_b"] == "files__a_b", "the one that need not be changed keeps its name"
    assert ours["a.b"].startswith("files__a_b_")
    assert len(set(ours.values())) == len(theirs)
    for name in ours.values():
        Tool(name=name, description="")


def test_a_tool_that_is_called_as_another_one_is_cut_takes_no_name_twice():
    long = "a" * 70
    cut = names_of("files", [long])[long].removeprefix("files__")
    ours = names_of("files", [long, cut])
    assert len(set(ours.values())) == 2
    assert all(len(name) <= 64 for name in ours.values())


async def test_a_tool_that_is_wanted_is_found_behind_more_than_a_model_may_have():
    class Pages:
        async def list_tools(self, cursor: str | None) -> Any:
            page = int(cursor or 0)
            tools = [mcp.Tool(name=f"t{100 * page + each}", input_schema={}) for each in range(100)]
            return mcp.ListToolsResult(tools=tools, next_cursor=str(page + 1) if page < 4 else None)

    session: Any = Pages()
    assert [tool.name for tool in await list_tools(session, ("t430", "t2"))] == ["t2", "t430"]
    assert len(await list_tools(session, None)) == 200, (
        "no more pages than are needed to say that it has too many"
    )


async def test_refused_tools_are_named_up_to_a_number_and_then_counted():
    [config] = read_servers({"a": {"url": URL}})
    theirs = [mcp.Tool(name=f"t{each}", input_schema={"type": "object"}) for each in range(5000)]
    listed = tools_listed(config, theirs, never)
    assert (len(listed.tools), len(listed.refused), listed.more) == (128, 100, 4772)


@pytest.mark.parametrize("data", ["no base64", "ünï"])
def test_a_picture_that_is_damaged_is_a_line_that_says_so(data):
    image = mcp.ImageContent(type="image", mime_type="image/png", data=data)
    assert value_of(mcp.CallToolResult(content=[image])) == "[image, image/png: damaged, not passed on]"


async def never(*call: Any) -> Any:
    raise AssertionError("it is not called")


# -- a real server -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    with stand_in(tmp_path_factory.mktemp("mcp")) as running:
        yield running


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    be_patient(monkeypatch)
    opened: list[Servers] = []

    def to(**entries: dict[str, Any]) -> Servers:
        opened.append(Servers(read_servers(entries)))
        return opened[-1]

    yield to
    for servers in opened:
        servers.close()


@pytest.fixture
async def tools(server: StandIn, connect: Any) -> dict[str, Tool]:
    """Those of the stand-in, by their names there."""
    return await tools_of(connect(t={"url": server.at(), "timeout": 60}))


async def tools_of(servers: Servers) -> dict[str, Tool]:
    await servers.look()
    return {tool.name.partition("__")[2]: tool for tool in servers.tools()}


def only(known: tuple[tuple[Any, Known], ...]) -> Known:
    return known[0][1]


def context(told: list[Any] | None = None) -> ToolContext:
    def tell(name: str, value: Any) -> None:
        if told is not None:
            told.append((name, value))

    return ToolContext(thread_id="t", run_id="r", tool_call_id="c", user=None, abort=AbortSignal(), tell=tell)


async def call(tool: Tool, told: list[Any] | None = None, **arguments: Any) -> Any:
    assert tool.execute is not None
    async with asyncio.timeout(WITHIN):
        return await tool.execute(arguments, context(told))


async def until(condition: Any) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 (what is awaited happens in another process)
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_what_a_server_offers_is_taken_with_its_flags_or_refused_with_the_reason(server, connect):
    servers = connect(t={"url": server.at(), "headers": {"Authorization": SECRET}})
    known = only(await servers.look())
    tools = {tool.name: tool for tool in known.tools}
    assert (known.problem, known.is_there, known.protocol) == (None, True, "2026-07-28")
    flags = {name: (tools[f"t__{name}"].needs_approval, tools[f"t__{name}"].idempotent) for name in
             ("add", "write", "erase", "put")}  # fmt: skip
    assert flags == {
        "add": (False, True), "write": (True, False), "erase": (True, False), "put": (True, True),
    }  # fmt: skip
    assert tools["t__add"].parameters["required"] == ["a", "b"]
    with pytest.raises(InvalidArguments, match="b: Field required"):
        tools["t__add"].read('{"a": 1}')
    evil = tools["t__evil"].description
    assert evil.startswith("<script>")
    assert len(evil) <= 2001
    assert "\x00" not in evil
    assert tools["t__choose"].parameters == tools["t__add"].parameters, (
        "no endpoint takes `oneOf` at the root"
    )
    refused = {each.name: str(each.why) for each in known.refused}
    assert refused == {
        "odd": "an argument has a name that not every provider takes",
        "deep": "its schema is more than 24 deep",
        "wide": "its schema is larger than 64 KB",
    }


@pytest.mark.slow
async def test_an_operator_says_which_tools_are_taken_and_which_ask(server, connect):
    servers = connect(t={"url": server.at(), "tools": ["write", "erase", "nope"], "needs_approval": False})
    known = only(await servers.look())
    assert {tool.name: tool.needs_approval for tool in known.tools} == {"t__write": False, "t__erase": True}
    assert [(each.name, str(each.why)) for each in known.refused] == [("nope", "the server has no such tool")]


@pytest.mark.slow
async def test_results_are_values_of_ours(tools):
    assert await call(tools["add"], a=2, b=3) == "5"
    assert await call(tools["picture"]) == [TextPart("Look:"), ImagePart("image/png", data=PNG)]
    assert await call(tools["vector"]) == "[image, image/svg+xml: not passed on]"
    assert await call(tools["fails"]) == ToolOutput("The disk is full.", error="tool_error")
    links = await call(tools["links"])
    assert "[log: file:///log] text/plain" in links
    assert "[file:///a]\nthe text of a" in links
    assert "[audio, audio/wav: not passed on]" in links
    assert await call(tools["structured"]) == '{"rows":[1,2]}'
    assert await call(tools["said_twice"]) == '{"rows": [1, 2]}', "what is said as text is not said again"
    assert len(await call(tools["big"])) == 5_000_000
    assert tools["big"].max_output == 100_000


@pytest.mark.slow
async def test_an_answer_that_is_too_large_is_not_read_and_may_have_had_its_effect(tools):
    with pytest.raises(ToolError, match="the answer is larger than 16 MB") as error:
        await call(tools["huge"])
    assert error.value.code == "mcp_error", "it only reads"
    assert len(str(error.value)) < 600
    assert await call(tools["ping"]) == "ping: {}", "the session goes on"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mcp", "/old"])
async def test_a_call_that_is_stopped_is_cancelled_at_the_server_and_tells_how_far_it_was(
    server, connect, path
):
    tools = await tools_of(connect(t={"url": server.at(path)}))
    told: list[Any] = []
    before = server.calls("slow")
    work = asyncio.create_task(call(tools["slow"], told))
    await until(lambda: len(told) >= 2)
    work.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert time.monotonic() - began < 20
    assert told[0] == ("slow", {"done": 0.0, "total": 1000.0})
    await until(lambda: server.calls("slow")[len(before) :] == ["begun", "cancelled"])
    assert await call(tools["ping"]) == "ping: {}"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mcp", "/old"])
async def test_a_call_that_fails_for_its_own_reasons_ends_no_other(server, connect, path):
    tools = await tools_of(connect(t={"url": server.at(path)}))
    told: list[Any] = []
    work = asyncio.create_task(call(tools["slow"], told))
    await until(lambda: told)
    with pytest.raises(ToolError, match="Not now"):
        await call(tools["grumble"])
    before = len(told)
    await until(lambda: len(told) > before + 1 or work.done())
    assert not work.done()
    work.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/mcp", "/old"])
async def test_a_server_tells_of_new_tools(tmp_path, connect, path):
    with stand_in(tmp_path) as own:
        servers = connect(t={"url": own.at(path)})
        tools = await tools_of(servers)
        assert "grown" not in tools
        await call(tools["grow"])
        await until(lambda: any(tool.name == "t__grown" for tool in servers.tools()))


@pytest.mark.slow
async def test_a_session_that_the_server_forgot_is_opened_again_and_the_call_is_made_once(server, connect):
    import httpx

    tools = await tools_of(connect(t={"url": server.at("/old")}))
    async with httpx.AsyncClient(timeout=60) as client:
        await client.get(server.at("/forget"))
    before = len(server.calls("write"))
    assert await call(tools["write"]) == "write: {}"
    assert server.calls("write")[before:] == ["begun", "done"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/away", "Redirect to http://localhost:9/mcp not followed"),
        ("/locked", "it lets nobody in with these headers (HTTP 401)"),
        ("/sse", "the older HTTP+SSE transport is not spoken here"),
        ("/packed", "it packs its answers, though none was asked for"),
    ],
)
async def test_a_server_that_cannot_be_used_says_why_without_secrets(server, connect, caplog, path, why):
    servers = connect(
        t={"url": f"{server.at(path)}?key=s3cret-of-the-header", "headers": {"Authorization": SECRET}}
    )
    known = only(await servers.look())
    assert why in str(known.problem)
    assert known.tools == ()
    assert "s3cret" not in str(known.problem) + caplog.text


@pytest.mark.slow
async def test_a_server_that_says_nothing_is_waited_for_once(connect, monkeypatch):
    monkeypatch.setattr("agent.mcp.servers.FIRST_WAIT", 3.0)
    silent = await asyncio.start_server(lambda reader, writer: reader.read(), "127.0.0.1")
    servers = connect(t={"url": f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/mcp"})
    async with asyncio.timeout(WITHIN):
        for _ in range(40):  # three seconds each would be two minutes
            await servers.ready()
    assert not only(servers.known()).is_there
    await asyncio.to_thread(servers.close)
    silent.close()


@pytest.mark.slow
async def test_a_server_that_is_away_is_found_when_it_is_back(tmp_path, connect, monkeypatch):
    monkeypatch.setattr("agent.mcp.server.AGAIN_AFTER", 1.0)
    with stand_in(tmp_path) as own:
        own.stop()
        servers = connect(t={"url": own.at()})
        async with asyncio.timeout(WITHIN):
            await servers.ready()
        assert servers.tools() == ()
        assert "it cannot be reached" in str(only(servers.known()).problem)
        own.start()
        await until(servers.tools)
        tools = {tool.name: tool for tool in servers.tools()}
        own.stop()
        await until(lambda: not only(servers.known()).is_there)
        with pytest.raises(ToolError, match="The MCP server t cannot be asked: ") as error:
            await call(tools["t__write"])
        assert error.value.code == "mcp_unreachable"
        assert own.calls("write") == []


@pytest.mark.slow
async def test_a_server_that_dies_in_mid_call_leaves_the_outcome_unknown_and_what_only_reads_is_asked_again(
    tmp_path, connect
):
    with stand_in(tmp_path) as own:
        tools = await tools_of(connect(t={"url": own.at()}))
        work = asyncio.create_task(call(tools["slow"]))
        await until(lambda: own.calls("slow"))
        own.stop()
        with pytest.raises(ToolError) as error:
            await work
        assert error.value.code == "outcome_unknown"
        assert own.calls("slow") == ["begun"]
        with pytest.raises(ToolError):
            await call(tools["slow_read"])


@pytest.mark.slow
async def test_what_may_have_arrived_is_sent_again_only_if_its_tool_may_run_twice(server, connect):
    tools = await tools_of(connect(t={"url": server.at("/breaks")}))
    before = len(server.calls("write"))
    with pytest.raises(ToolError, match=r"it failed \(HTTP 502\). No result was kept for this call") as error:
        await call(tools["write"])
    assert error.value.code == "outcome_unknown"
    assert server.calls("write")[before:] == ["begun", "done"], "once, though its answer was lost"
    assert await call(tools["write"]) == "write: {}"
    assert await call(tools["put"]) == "put: {}"
    assert server.calls("put") == ["begun", "done"] * 2, "it says that it may run twice"


@pytest.mark.slow
async def test_a_command_is_started_spoken_to_and_ends_with_us(tmp_path, connect, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "ours alone")
    log = tmp_path / "calls"
    program, *args = command(log)
    servers = connect(t={"command": program, "args": args, "env": {"PYTHONPATH": str(ROOT)}})
    tools = await tools_of(servers)
    assert await call(tools["add"], a=2, b=3) == "5"
    [pid] = children(log)
    assert b"ours alone" not in environment_of(pid)
    assert len(await call(tools["big"])) == 5_000_000
    # It dies while nobody calls: the next call starts another.
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not only(servers.known()).is_there)
    assert await call(tools["ping"]) == "ping: {}"
    [again] = children(log)
    assert again != pid
    await asyncio.to_thread(servers.close)
    # Nobody has to take leave of it any more, either.
    await until(lambda: not any(Path(f"/proc/{each}").exists() for each in (pid, again)))


@pytest.mark.slow
async def test_a_server_that_says_at_each_look_that_its_tools_are_others_is_not_looked_at_without_end(
    tmp_path, connect, monkeypatch
):
    monkeypatch.setattr("agent.mcp.server.LIST_AGAIN", 600.0)
    with stand_in(tmp_path) as own:
        tools = await tools_of(connect(t={"url": own.at()}))
        await call(tools["fidget"])
        await until(lambda: own.calls("tools"))
        for _ in range(20):
            await call(tools["ping"])
        assert own.calls("tools") == ["listed"]


@pytest.mark.slow
async def test_a_server_that_does_not_answer_when_one_takes_leave_holds_up_no_call(
    server, connect, monkeypatch
):
    import httpx

    monkeypatch.setattr("agent.mcp.guarded.LEAVE_FOR", 0.2)
    tools = await tools_of(connect(t={"url": server.at("/clingy")}))
    async with httpx.AsyncClient(timeout=60) as client:
        await client.get(server.at("/forget"))
    assert await call(tools["ping"]) == "ping: {}"


@pytest.mark.slow
async def test_who_stops_waiting_for_a_server_stops_no_other_who_waits_for_it(connect, monkeypatch):
    monkeypatch.setattr("agent.mcp.server.OPEN_FOR", 2.0)
    silent = await asyncio.start_server(lambda reader, writer: reader.read(), "127.0.0.1")
    servers = connect(t={"url": f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/mcp"})
    first, second = asyncio.create_task(servers.look()), asyncio.create_task(servers.look())
    await asyncio.sleep(0)  # both wait
    first.cancel()
    async with asyncio.timeout(WITHIN):
        assert "did not say what tools it has" in str(only(await second).problem)
    assert first.cancelled()
    silent.close()


STUBBORN = """
import os, signal, sys, time
{before}
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
"""A command that never says anything, and does not hear that its input ends."""
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
"""Nor that it should end."""


def stubborn(told: Path, before: str = "") -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-c", STUBBORN.format(before=before), str(told)]}


def is_gone(told: Path) -> bool:
    return not Path(f"/proc/{told.read_text()}").exists()


@pytest.mark.slow
async def test_a_command_that_is_being_opened_when_all_is_closed_ends_and_who_waits_hears_of_it(
    tmp_path, connect, caplog
):
    servers = connect(t=stubborn(tmp_path / "pid", before=DEAF))
    waiting = asyncio.create_task(servers.look())
    await until((tmp_path / "pid").exists)
    await asyncio.to_thread(servers.close)
    await until(lambda: is_gone(tmp_path / "pid"))
    async with asyncio.timeout(WITHIN):
        assert not only(await waiting).is_there
    assert only(await servers.look()).tools == ()
    assert caplog.text == "", "that we go is no fault of a server"


@pytest.mark.slow
async def test_a_command_whose_time_is_over_while_it_is_ended_is_not_left_at_work(
    tmp_path, connect, monkeypatch
):
    monkeypatch.setattr("agent.mcp.server.OPEN_FOR", 3.0)
    servers = connect(t=stubborn(tmp_path / "pid", before=f"{DEAF}os.close(1)"))
    async with asyncio.timeout(WITHIN):
        assert only(await servers.look()).problem
    await until(lambda: is_gone(tmp_path / "pid"))


@pytest.mark.slow
async def test_a_process_that_ends_while_it_opens_leaves_no_command_behind(tmp_path):
    program = (
        "import sys, time; from pathlib import Path; import agent.mcp.servers\n"
        "from agent.mcp import Servers, read_servers\n"
        "agent.mcp.servers.CLOSE_FOR = 60.0\n"  # what is to be seen is that it ends, not how soon
        "told = Path(sys.argv[1])\n"
        "Servers(read_servers({'t': {'command': sys.argv[2], 'args': ['-c', sys.argv[3], str(told)]}})).begin()\n"
        "while not told.exists(): time.sleep(0.02)\n"
    )
    entry = stubborn(tmp_path / "pid")
    ending = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "pid"), entry["command"], entry["args"][1], cwd=ROOT
    )
    async with asyncio.timeout(WITHIN):
        assert await ending.wait() == 0
    await until(lambda: is_gone(tmp_path / "pid"))


def children(log: Path) -> list[int]:
    """Those of our own that keep this log."""
    listed = " ".join(map(text_of, Path("/proc/self/task").glob("*/children")))
    return [pid for pid in map(int, listed.split()) if str(log) in text_of(Path(f"/proc/{pid}/cmdline"))]


def text_of(file: Path) -> str:
    """Nothing, of a thread or a process that has ended since it was listed."""
    try:
        return file.read_text()
    except OSError:
        return ""


def environment_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()
