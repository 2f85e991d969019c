"""`manage.py doctor`, at installations that are well and at ones that are not, behind real proxies."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.core import signing
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from agent.mcp import read_servers
from chatsite.chat.tools import remote
from chatsite.operator import probe
from chatsite.operator.doctor import database, files, findings, models, tool_servers
from chatsite.operator.doctor.findings import Level
from tests.mcp_server import SECRET, be_patient, stand_in
from tests.server import Server
from tests.site.processes import ROOT, environment, kept_port, wait_until

Found = dict[str, tuple[str, str]]
"""What was looked at -> (level, words)."""


def doctor(server: Server, *arguments: str) -> tuple[int, Found]:
    done = subprocess.run(
        [sys.executable, "manage.py", "doctor", "--json", *arguments],
        cwd=ROOT,
        env=environment(**server.settings),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert not done.stderr, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(each["advice"] for each in told if each["level"] != Level.OK)
    return done.returncode, {each["about"]: (each["level"], each["words"]) for each in told}


def levels(found: Found, level: Level) -> dict[str, str]:
    return {about: words for about, (its, words) in found.items() if its == level}


# -- proxies


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certificate")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def needs(program: str) -> str:
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        assert not os.environ.get("CI"), f"{program} is not installed"
        pytest.skip(f"{program} is not installed")
    return found


@contextmanager
def running(command: list[str], log: Path, port: int, **env: str) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **env})
    try:
        wait_until(lambda: _listens(port), f"{command[0]}: {log.read_text()[-500:]}")
        yield
    finally:
        process.terminate()
        process.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probing:
        return probing.connect_ex(("127.0.0.1", port)) == 0


Change = Callable[[str], str]
Ports = tuple[int, int]
"""Of a proxy: for plain HTTP and for TLS."""


@pytest.fixture
def ports() -> Iterator[Ports]:
    with kept_port() as plain, kept_port() as tls:
        yield plain, tls


@contextmanager
def nginx(
    server: Server, folder: Path, ports: Ports, certificate: tuple[Path, Path], change: Change
) -> Iterator[str]:
    """The configuration that we ship, with this machine's addresses in it."""
    plain, port = ports
    shipped = (ROOT / "deploy" / "nginx.conf").read_text()
    ours = change(shipped)
    for theirs, here in {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "server 127.0.0.1:8000;": f"server {server.url.removeprefix('http://')};",
        "server_name chat.example.org;": "server_name localhost;",
        "/etc/letsencrypt/live/chat.example.org/fullchain.pem": str(certificate[0]),
        "/etc/letsencrypt/live/chat.example.org/privkey.pem": str(certificate[1]),
    }.items():
        assert theirs in ours
        ours = ours.replace(theirs, here)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary} {ours} }}"
    )
    command = [needs("nginx"), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    with running(command, folder / "nginx.log", port):
        yield f"https://localhost:{port}"


@contextmanager
def caddy(server: Server, folder: Path, ports: Ports) -> Iterator[str]:
    plain, port = ports
    here = f"{{\n\thttp_port {plain}\n\thttps_port {port}\n\tskip_install_trust\n\tadmin off\n}}\n"
    (folder / "Caddyfile").write_text(here + (ROOT / "deploy" / "Caddyfile").read_text())
    command = [needs("caddy"), "run", "--config", str(folder / "Caddyfile")]
    upstream = server.url.removeprefix("http://")
    with running(
        command,
        folder / "caddy.log",
        port,
        DOMAIN="localhost",
        UPSTREAM=upstream,
        HOME=str(folder),
        XDG_DATA_HOME=str(folder),
    ):
        url = f"https://localhost:{port}"
        wait_until(lambda: _answers(url), "the certificate and the first look at the server")
        yield url


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", verify=False, timeout=20).status_code == 200
    except httpx.HTTPError:
        return False


class BehindTls(Server):
    """It prints the address that people use; the proxy asks it at its own."""

    def _address(self, begin: int) -> str:
        return f"http://127.0.0.1:{self.settings['PORT']}" if "https://" in self.output[begin:] else ""


@pytest.fixture(scope="module")
def behind_a_proxy(tmp_path_factory) -> Iterator[Server]:
    settings = {
        "HTTPS": "true",
        "ALLOWED_HOSTS": "localhost,127.0.0.1",
        "SERVER": "uvicorn",
    }
    folder = tmp_path_factory.mktemp("server")
    with kept_port() as port, BehindTls(folder, PORT=str(port), **settings) as server:
        yield server


def as_it_is(text: str) -> str:
    return text


@pytest.mark.slow
@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
def test_all_is_well_behind_the_proxies_that_we_ship(proxy, behind_a_proxy, certificate, tmp_path, ports):
    needs(proxy)
    server = behind_a_proxy
    started = (
        nginx(server, tmp_path, ports, certificate, as_it_is)
        if proxy == "nginx"
        else caddy(server, tmp_path, ports)
    )
    with started as url:
        code, found = doctor(server, "--url", url, "--insecure")
    assert levels(found, Level.WRONG) == {}
    assert code == 0
    at_the_site = {"address", "origin", "stream (SSE)", "socket (WebSocket)", "static files", "processes"}
    assert at_the_site <= levels(found, Level.OK).keys(), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "about", "words"),
    [
        (
            lambda text: text.replace(
                "proxy_buffering off;", "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"
            ),
            "stream (SSE)",
            "held back",
        ),
        (
            lambda text: re.sub(r"proxy_set_header Upgrade .*", "", text),
            "socket (WebSocket)",
            "none can be opened",
        ),
        (lambda text: text.replace("$http_host", "chat.internal"), "address", "does not know the name"),
        (
            lambda text: re.sub(r"proxy_set_header X-Forwarded-Proto .*", "", text),
            "origin",
            "the server is told",
        ),
    ],
    ids=["buffers", "no upgrade", "another host", "no scheme"],
)
def test_what_a_proxy_does_to_the_site_is_named(
    change, about, words, behind_a_proxy, certificate, tmp_path, ports
):
    with nginx(behind_a_proxy, tmp_path, ports, certificate, change) as url:
        code, found = doctor(behind_a_proxy, "--url", url, "--insecure")
    assert code == 1
    assert words in levels(found, Level.WRONG)[about], found


@pytest.mark.slow
def test_a_fresh_installation_is_well_and_lacks_a_model(tmp_path):
    with Server(tmp_path) as server:
        code, found = doctor(server, "--url", server.url)
        assert levels(found, Level.WRONG) == {}
        assert code == 0
        assert levels(found, Level.LOOK).keys() == {"endpoint"}
        # What the doctor is told is for the doctor alone.
        old = signing.TimestampSigner(salt=probe.SALT).sign("doctor")
        for path in ("/healthz/seen", "/healthz/stream"):
            for token in ("", "?token=x", f"?token={old}"):
                assert httpx.get(server.url + path + token, timeout=60).status_code == 404


# -- what it finds without asking anybody


def told(check: findings.Check) -> list[tuple[str, str]]:
    return [(finding.level, finding.words) for finding in findings.run("it", check)]


def test_a_check_that_breaks_is_a_finding_and_no_trace():
    def breaks() -> Iterator[findings.Finding]:
        yield findings.ok("first", "fine")
        raise RuntimeError("the disk is gone")

    (first, second) = findings.run("disk", breaks)
    assert first.level == Level.OK
    assert second.level == Level.WRONG
    assert "the disk is gone" in second.words


def test_a_token_that_is_too_old_opens_nothing(monkeypatch):
    token = probe.new_token()
    scope = {"query_string": f"token={token}".encode()}
    assert probe._is_asked_by_the_doctor(scope)
    later = time.time() + probe.HOLDS + 1
    monkeypatch.setattr(signing.time, "time", lambda: later)
    assert not probe._is_asked_by_the_doctor(scope)


@pytest.mark.django_db
def test_migrations_of_a_newer_version_are_named():
    assert told(database.migrations) == [(Level.OK, "all applied")]
    MigrationRecorder(connection).record_applied("chat", "9999_from_the_future")
    ((level, words),) = told(database.migrations)
    assert level == Level.WRONG
    assert "chat.9999_from_the_future" in words


def test_the_file_system_of_a_path_is_the_one_mounted_nearest(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/a / ext4 rw 0 0\nserver:/x /srv nfs4 rw 0 0\n/dev/b /srv/local\\040disk xfs rw 0 0\n"
    )
    kinds = [
        database.file_system_of(Path(path), str(mounts))
        for path in ("/home/db", "/srv/db", "/srv/local disk/db", "/srvother")
    ]
    assert kinds == ["ext4", "nfs4", "xfs", "ext4"]
    assert "nfs4" in database.NETWORK_FILE_SYSTEMS


def test_a_secret_that_others_can_read_is_named(tmp_path, settings):
    settings.DATA_DIR = tmp_path
    key = tmp_path / "secret_key"
    key.write_text("x")
    key.chmod(0o644)
    assert told(files.data_folder)[0][0] == Level.WRONG
    key.chmod(0o600)
    assert [level for level, _ in told(files.data_folder)] == [Level.OK]


def test_an_endpoint_that_does_not_answer_is_named_and_its_key_is_not(settings):
    from chatsite.chat import agents

    settings.OPENAI_BASE_URL = "http://127.0.0.1:9/v1"
    settings.OPENAI_API_KEY = "sk-very-secret"
    settings.OPENAI_MODELS = []
    agents.use_agents(None)
    try:
        found = told(models.chat_endpoints)
    finally:
        agents.use_agents(None)
    assert found[0][0] == Level.WRONG
    assert "OpenAI" in found[0][1]
    assert "very-secret" not in str(found)


@pytest.mark.slow
def test_each_mcp_server_has_a_line_with_what_it_offers_or_lacks_and_no_secret(
    tmp_path, settings, capfd, monkeypatch
):
    with stand_in(tmp_path) as server:
        headers = {"Authorization": SECRET}
        settings.MCP_SERVERS = read_servers(
            {
                "good": {"url": server.at(), "headers": headers, "tools": ["add", "write"]},
                "half": {"url": server.at(), "headers": headers, "tools": ["add", "deep"]},
                "none": {"url": server.at("/locked"), "headers": headers},
                "gone": {"url": "http://127.0.0.1:9/mcp", "headers": headers},
                "odd": {"command": "no-such-program", "args": ["s3cret"]},
            }
        )
        remote.use_servers(None)
        monkeypatch.setattr(tool_servers, "MOST_TAKEN", 3)
        be_patient(monkeypatch)
        try:
            found = list(tool_servers.tool_servers())
        finally:
            remote.use_servers(None)
    said = {each.about: (each.level, each.words) for each in found}
    assert said["MCP good"] == (
        Level.OK, f"{server.at('')} has 2 tools, 1 of them ask first (protocol 2026-07-28)",
    )  # fmt: skip
    assert said["tools"][1].endswith("tools, and many endpoints take 3 at most")
    assert said["MCP half"][0] == Level.LOOK
    assert "1 are not taken: deep: its schema is more than 24 deep" in said["MCP half"][1]
    assert said["MCP none"][0] == said["MCP gone"][0] == said["MCP odd"][0] == Level.WRONG
    assert "it lets nobody in with these headers (HTTP 401)" in said["MCP none"][1]
    assert "it cannot be reached" in said["MCP gone"][1]
    assert "its command cannot be started" in said["MCP odd"][1]
    assert all(each.advice for each in found if each.level != Level.OK)
    assert "s3cret" not in str(found) + "".join(capfd.readouterr())
