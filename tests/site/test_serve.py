"""`manage.py serve` as a person starts it: a real process, both servers."""

import asyncio
import gc
import os
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest
import websockets
from django.core.management import call_command
from django.core.signing import TimestampSigner
from django.db import OperationalError

from chatsite.operator import prepare, probe, servers
from chatsite.operator.limits import MAX_FRAME
from chatsite.operator.management.commands.serve import Command
from tests.site.processes import manage, opened_socket, served, wait_until

SERVERS = ["daphne", "uvicorn"]


@pytest.fixture(params=SERVERS, scope="module")
def site(request, tmp_path_factory):
    with served(tmp_path_factory.mktemp(request.param), SERVER=request.param) as site:
        wait_until(lambda: site.get("/healthz").status_code == 200, "the first answer")
        yield site


def test_an_empty_folder_becomes_a_site(site):
    assert site.get("/healthz").text == "ok\n"
    assert site.get("/").status_code == 302
    assert site.get("/accounts/login/").status_code == 200
    data = Path(site.log).parent / "data"
    assert stat.S_IMODE((data / "secret_key").stat().st_mode) == 0o600
    assert (data / "db.sqlite3").is_file()


def test_static_files_are_compressed_and_named_by_content(site):
    page = site.get("/accounts/login/").text
    start = page.index("/static/chat/chat.")
    path = page[start : page.index('"', start)]
    answer = site.get(path, headers={"Accept-Encoding": "gzip"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/css")
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    again = site.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path", ["/static/nothing.css", "/static/../manage.py", "/static/%2e%2e/%2e%2e/db.sqlite3"]
)
def test_what_is_no_static_file_is_not_found(path, site):
    assert site.get(path).status_code == 404


def test_another_host_name_is_refused(site):
    assert site.get("/", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize("piece", [b"a" * 1000, b"X-More: " + b"a" * 1000 + b"\r\n", b"X: y\r\n" * 100])
def test_a_head_that_does_not_end_is_read_no_further(piece, site):
    """One header without an end, and headers without an end."""
    host, port = site.address.removeprefix("http://").split(":")
    taken = 0
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
        try:
            while taken < 50_000_000:
                raw.sendall(piece * 64)
                taken += 64 * len(piece)
            pytest.fail("50 MB of a head were taken")
        except ConnectionError:
            pass
    assert site.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "piece", [b"X-More: " + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["many", "one that does not end"]
)
def test_trailers_that_do_not_end_are_read_no_further(piece, site):
    """What a client may send behind the last chunk of a body."""
    host, port = site.address.removeprefix("http://").split(":")
    taken = 0
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(
            b"POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-More: "
        )
        try:
            while taken < 50_000_000:
                raw.sendall(piece * 64)
                taken += 64 * len(piece)
            pytest.fail("50 MB of trailers were taken")
        except ConnectionError:
            pass
    assert site.get("/healthz").status_code == 200


def test_trailers_are_no_headers_of_the_request(site):
    """A proxy vouches for headers, and has not seen these; here one would be the host that is asked."""
    host, port = site.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(
            b"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Connection: close\r\n\r\n2\r\na=\r\n0\r\nAuthorization: Bearer of-a-trailer\r\n"
            b"Host: evil.example\r\n\r\n"
        )
        answer = b""
        while piece := raw.recv(65_536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 403"), answer[:200]


def test_only_a_get_may_become_a_socket_and_what_else_asks_for_one_is_answered(site):
    host, port = site.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nContent-Length: 2\r\n\r\n{}"
        )
        answer = raw.recv(65_536)
    assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 405")), answer[:200]


def test_the_servers_do_not_say_who_they_are(site):
    assert "server" not in site.get("/healthz").headers


def test_the_setup_link_opens_a_form(site):
    answer = site.get(site.setup_path)
    assert answer.status_code == 200
    assert 'name="password2"' in answer.text


@pytest.mark.parametrize(
    ("path", "origin", "opens"),
    [
        ("/ws/threads/none/", None, True),
        ("/ws/threads/none/", "own", True),
        ("/ws/threads/none/", "http://127.0.0.1:1", False),
        ("/ws/threads/none/", "http://evil.example", False),
        ("/ws/threads/none/", "null", False),
        ("/ws/nowhere/", None, False),
    ],
)
async def test_a_socket_opens_for_programs_and_our_own_pages_only(path, origin, opens, site):
    """Without an account it is closed again at once; what counts here is whether the door opened."""
    url = site.address.replace("http", "ws") + path
    own = site.address if origin == "own" else origin
    try:
        async with opened_socket(url, origin=own) as sock:
            await sock.wait_closed()
            answer = sock.close_code
    except websockets.InvalidStatus as exc:
        answer = exc.response.status_code
    assert answer in (range(4400, 4500) if opens else [403])


async def told_to_the_probe(site, said, **options):
    """What comes of a message to the socket that the doctor uses, which says it back: the code it was closed with."""
    key = (Path(site.log).parent / "data" / "secret_key").read_text().strip()
    token = TimestampSigner(key=key, salt=probe.SALT).sign("doctor")
    url = f"{site.address.replace('http', 'ws')}/ws/healthz/?token={token}"
    heard = ""
    async with opened_socket(url, max_size=None, **options) as sock:
        with suppress(
            websockets.ConnectionClosedError
        ):  # it may be in the middle of a message that is too long
            await sock.send(said)
            while len(heard) <= 1:  # at first it counts
                heard = await sock.recv()
        await sock.wait_closed()
    return len(heard), sock.close_code


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_a_message_of_a_socket_is_not_larger_than_a_frame_also_unpacked(compression, site):
    """Two megabytes of one letter are two kilobytes on the wire, where the server takes compressed frames."""
    assert await told_to_the_probe(site, "a" * 1000, compression=compression) == (1000, 1000)
    size, code = await told_to_the_probe(site, "a" * (2 * MAX_FRAME), compression=compression)
    assert size <= 1
    assert code in {1006, 1009}  # the code of a server that will read no more may be lost


def test_none_of_this_left_a_trace_in_the_log(site):
    assert "Traceback" not in site.output
    assert "Invalid HTTP_HOST header: 'evil.example'" in site.output  # but a line, to see what to allow


def test_what_the_start_built_is_no_work_for_the_garbage_collector(monkeypatch, settings):
    seen = []

    def look(application, sock, when_up):
        seen.extend([gc.get_freeze_count(), len(gc.get_objects())])
        sock.close()

    settings.PORT = 0
    monkeypatch.setattr(Command, "_prepare", lambda self: None)
    monkeypatch.setitem(servers.SERVERS, settings.SERVER, look)
    try:
        call_command("serve")
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as `tests/conftest.py` left it
    frozen, left = seen
    assert frozen > 20 * left


LOADED_WHEN_NEEDED = {
    *("ag_ui", "latex2mathml", "markdown_it", "nh3", "pygments", "rich", "httpx._main"),
    *("psycopg", "redis", "twisted", "daphne.server", "mcp", "opentelemetry.sdk"),
    *("uvicorn.main", "click", "websockets", "frozenlist._frozenlist", "httpx", "httpx_aiohttp"),
}
LOADED = """
import sys, chatsite.asgi, chatsite.operator.uvicorn
from django.urls import get_resolver
get_resolver().url_patterns
print(*(name for name in sys.modules if sys.modules[name] is not None))
"""


WITHOUT_COMMAND_LINE = """
from chatsite.operator.uvicorn import uvicorn
import uvicorn.server
assert uvicorn.Server is uvicorn.server.Server
try:
    uvicorn.run("nobody:app")
except SystemExit as end:
    print(end.code)
import uvicorn.main, click
print(uvicorn.main.Server is uvicorn.Server)
"""


def test_the_command_line_of_uvicorn_is_there_for_who_asks_later(tmp_path):
    ended = manage("shell", "--verbosity", "0", "-c", WITHOUT_COMMAND_LINE, DATA_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["3", "True"]  # 3: no such application


async def test_a_connection_has_no_more_names_of_its_own_than_python_shares():
    """Past 30 of them each instance has all the names for itself: 1.3 KB a connection."""
    from uvicorn.server import ServerState

    from chatsite.operator.uvicorn import Http, uvicorn

    config = uvicorn.Config(app=None, http=Http, lifespan="off", log_config=None)
    config.loaded_app = None
    there, here = socket.socketpair()
    loop = asyncio.get_running_loop()
    with there:
        transport, protocol = await loop.connect_accepted_socket(
            lambda: Http(config, ServerState(), {}), here
        )
        names = set(vars(protocol))
        transport.close()
    assert not names & {"_silent", "_in_head", "_bodiless"}
    assert len(names) < 30


WITH_DAPHNE = """
import sys, chatsite.asgi, chatsite.operator.daphne
print(*sys.modules)
import OpenSSL.SSL, autobahn.wamp.auth, cryptography.x509
print(autobahn.wamp.auth.compute_totp.__module__)
"""


def test_daphne_comes_without_tls_which_is_there_for_who_asks_later(tmp_path):
    ended = manage("shell", "--verbosity", "0", "-c", WITH_DAPHNE, DATA_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    loaded, later = ended.stdout.splitlines()
    assert not set(loaded.split()) & {"OpenSSL", "cryptography", "autobahn.wamp.auth", "service_identity"}
    assert later == "autobahn.wamp.auth"


def test_a_start_loads_nothing_that_only_some_servers_need(tmp_path):
    ended = manage("shell", "--verbosity", "0", "-c", LOADED, DATA_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.split())
    assert "chatsite.asgi" in loaded
    assert not loaded & LOADED_WHEN_NEEDED


def test_what_prepares_a_start_leaves_nothing_in_memory(tmp_path):
    here = []

    def work():
        here.extend(["x"] * 1000)
        (tmp_path / "done").write_text("by a child")

    prepare.in_a_child(work)
    assert (tmp_path / "done").read_text() == "by a child"
    assert not here


@pytest.mark.parametrize("unpicklable", [False, True])
def test_what_fails_in_preparing_is_said_by_the_start(unpicklable):
    class OfItsOwn(Exception):
        """A class that no other process knows."""

    def work():
        raise (OfItsOwn if unpicklable else OperationalError)("no such table: chat_run")

    with pytest.raises(RuntimeError if unpicklable else OperationalError, match="no such table: chat_run"):
        prepare.in_a_child(work)


def test_a_preparation_that_is_killed_fails_the_start():
    with pytest.raises(RuntimeError, match="ended from outside"):
        prepare.in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL))


@pytest.mark.parametrize("server", SERVERS)
def test_a_port_in_use_is_a_sentence(server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = manage("serve", DATA_DIR=str(tmp_path), PORT=str(port), SERVER=server)
    assert ended.returncode != 0
    sentence = f"Port {port} on 127.0.0.1 is in use; stop what uses it, or set PORT to another number."
    assert ended.stderr == f"CommandError: {sentence}\n"


def test_an_address_of_another_machine_is_a_sentence(tmp_path):
    ended = manage("serve", DATA_DIR=str(tmp_path), HOST="192.0.2.1", PORT="0")
    assert ended.stderr.startswith("CommandError: HOST is '192.0.2.1', which is no address of this machine")


def test_a_database_that_is_not_there_is_a_sentence(tmp_path):
    url = "postgres://user:hunter2@127.0.0.1:1/chat"
    ended = manage("serve", DATA_DIR=str(tmp_path), PORT="0", DATABASE_URL=url)
    assert ended.returncode != 0
    assert ended.stderr.startswith("CommandError: The database cannot be used: ")
    assert "hunter2" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_data_folder_that_takes_no_files_is_a_sentence(tmp_path):
    (tmp_path / "static").touch()  # where a folder has to be made
    ended = manage("serve", DATA_DIR=str(tmp_path), PORT="0")
    assert ended.returncode != 0
    assert ended.stderr.startswith(f"CommandError: DATA_DIR ({tmp_path}) cannot be used: ")
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_it_ends_when_told_to_and_starts_again_where_it_was(server, tmp_path):
    made = {
        "DJANGO_SUPERUSER_USERNAME": "ada",
        "DJANGO_SUPERUSER_EMAIL": "",
        "DJANGO_SUPERUSER_PASSWORD": "x",
    }
    with served(tmp_path, SERVER=server) as site:
        first = site.setup_path
        assert site.get(first).status_code == 200
        site.stop()
    assert manage("createsuperuser", "--noinput", DATA_DIR=str(tmp_path / "data"), **made).returncode == 0
    with served(tmp_path, SERVER=server) as site:
        assert site.setup_path == ""
        assert site.output.startswith("Open http://127.0.0.1:")
        assert site.get(first).status_code == 404
