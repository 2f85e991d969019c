"""The chat and the gateway in a Django project that has its own settings: the very text of
`docs/django.md`, behind what `startproject` writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.site.processes import ROOT, wait_until

pytestmark = pytest.mark.slow

PASSWORD = "a long enough secret"
HEADING = "## With settings and accounts of your own"


def sample(file: str, document: str = "docs/django.md", heading: str = HEADING) -> str:
    """What the document says of this file."""
    section = (ROOT / document).read_text("utf-8").split(heading)[1].split("\n## ")[0]
    [found] = re.findall(rf"```python\n# shop/{file}.*?\n(.*?)```", section, flags=re.S)
    return found


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        self.environment = kept | {"PYTHONPATH": str(ROOT), "DJANGO_SUPERUSER_PASSWORD": PASSWORD}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    def manage(self, *arguments: str) -> str:
        ended = self.run("manage.py", *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def write(self, file: str, text: str) -> None:
        (self.folder / "shop" / file).write_text(text, "utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    made = Project(tmp_path_factory.mktemp("project"))
    assert made.run("-m", "django", "startproject", "shop", ".").returncode == 0
    begun = (made.folder / "shop" / "settings.py").read_text("utf-8")
    made.write("settings.py", begun + "\n" + sample("settings.py"))
    made.write("urls.py", sample("urls.py"))
    made.write("asgi.py", sample("asgi.py"))
    # A project's own pages have names of their own choice: the chat's must not meet them.
    (made.folder / "templates").mkdir()
    (made.folder / "templates" / "base.html").write_text("The shop's own frame")
    with (made.folder / "shop" / "settings.py").open("a") as file:
        file.write('TEMPLATES[0]["DIRS"].insert(0, BASE_DIR / "templates")\n')
    return made


@pytest.fixture(scope="module")
def address(project) -> Iterator[str]:
    project.manage("check", "--fail-level", "WARNING")
    project.manage("migrate")
    project.manage("createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.org")
    log = project.folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "shop.asgi:application", "--port", "0"],
            cwd=project.folder,
            env=project.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def told() -> str:
        assert process.poll() is None, log.read_text()
        found = re.search(r"running on (http://[\d.:]+)", log.read_text())
        return found[1] if found else ""

    try:
        yield str(wait_until(told, "the line with the address"))
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def key(project, address) -> dict[str, str]:
    made = project.manage("createapikey", "--user", "ada", "--name", "laptop").strip()
    return {"Authorization": f"Bearer {made}"}


@pytest.fixture(scope="module")
def browser(address) -> Iterator[httpx.Client]:
    """Signed in by Django's own login."""
    with httpx.Client(base_url=address, timeout=60) as client:
        form = {
            "username": "ada",
            "password": PASSWORD,
            "csrfmiddlewaretoken": token(client, "/admin/login/"),
        }
        answer = client.post("/admin/login/?next=/assistant/", data=form)
        assert (answer.status_code, answer.headers["location"]) == (302, "/assistant/")
        yield client


def token(client: httpx.Client, page: str) -> str:
    return re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get(page).text)[0]


def test_the_page_opens_behind_djangos_own_login_without_links_that_lead_nowhere(address, browser):
    stranger = httpx.get(f"{address}/assistant/", timeout=60)
    assert (stranger.status_code, stranger.headers["location"]) == (302, "/admin/login/?next=/assistant/")
    page = browser.get("/assistant/")
    assert page.status_code == 200
    links = set(re.findall(r'(?:href|src)="(/[^"]*)"', page.text))
    assert {"/assistant/", "/assistant/archive", "/admin/", "/static/chat/chat.js"} <= links
    gone = [link for link in links if browser.get(link).status_code != 200]
    assert gone == []


def test_a_message_of_the_page_is_answered(browser):
    form = {"text": "Hello", "client_id": "c1", "csrfmiddlewaretoken": token(browser, "/assistant/")}
    sent = browser.post("/assistant/threads/", data=form)
    assert sent.status_code == 303, sent.text
    thread = sent.headers["location"]
    assert thread.startswith("/assistant/threads/")
    with browser.stream("GET", f"{thread}events?format=html") as events:
        assert events.status_code == 200
        assert next(line for line in events.iter_lines() if "demo model" in line)


def test_a_program_runs_the_agent_and_the_admin_reads_it(address, browser, key):
    body = {
        "threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "m1", "role": "user", "content": "Good morning to the shop"}],
    }  # fmt: skip
    answer = httpx.post(f"{address}/assistant/api/chat", headers=key, json=body, timeout=60)
    assert answer.status_code == 200
    assert '"RUN_FINISHED"' in answer.text.strip().rpartition("data: ")[2]
    [pk] = re.findall(r"/admin/chat/thread/(\d+)/transcript/", browser.get("/admin/chat/thread/?q=t1").text)[
        :1
    ]
    transcript = browser.get(f"/admin/chat/thread/{pk}/transcript/")
    assert transcript.status_code == 200
    assert "Good morning to the shop" in transcript.text


def test_the_admin_keeps_its_own_look_and_name(browser):
    for path in ("/admin/", "/admin/auth/user/", "/admin/chat/thread/"):
        page = browser.get(path)
        assert page.status_code == 200
        assert "Django administration" in page.text
        assert not re.search("threadloom|chat/icon", page.text, flags=re.I)


def test_a_socket_opens_for_a_key_and_for_no_other_sites_page(address, key):
    url = f"{address.replace('http', 'ws', 1)}/ws/threads/socket/"
    with connect(url, additional_headers=key):
        pass
    with pytest.raises(InvalidStatus):
        connect(url, additional_headers=key, origin="http://elsewhere.example")


def test_the_gateway_answers_a_key_and_refuses_others(address, key):
    asked = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
    url = f"{address}/v1/chat/completions"
    answer = httpx.post(url, headers=key, json=asked, timeout=60)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    assert httpx.post(url, headers={"x-api-key": "tl-none"}, json=asked, timeout=60).status_code == 401


def test_the_gateway_stands_without_the_chat(project, address, browser, key):
    asked = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
    assert (
        httpx.post(f"{address}/v1/chat/completions", headers=key, json=asked, timeout=60).status_code == 200
    )
    wait_until(lambda: "req_" in browser.get("/admin/gateway/exchange/").text, "the record of the request")
    project.write(
        "alone_urls.py", sample("urls.py").replace('path("assistant/", include("chatsite.chat.urls")),', "")
    )
    project.write(
        "alone.py",
        'from shop.settings import *\nINSTALLED_APPS.remove("chatsite.chat")\nROOT_URLCONF = "shop.alone_urls"\n'
        'ASGI_APPLICATION = "shop.alone_asgi.application"\n',
    )
    said = project.run("manage.py", "check", "--settings", "shop.alone")
    assert "gateway.W002" in said.stderr
    assert "cannot be imported" in said.stderr
    project.write(
        "alone_asgi.py",
        re.sub(r"(from chatsite.chat.routing .*|sockets = .*)\n", "", sample("asgi.py")).replace(
            ', "websocket": sockets', ""
        ),
    )
    project.manage("check", "--fail-level", "WARNING", "--settings", "shop.alone")
    script = """
from django.contrib.auth.models import User
from django.test import Client
from chatsite.gateway.models import Exchange

client = Client(SERVER_NAME="localhost")
client.force_login(User.objects.get())
page = client.get(f"/admin/gateway/exchange/{Exchange.objects.first().pk}/change/", follow=True)
print(page.status_code, "req_" in page.text)
"""
    assert "200 True" in project.manage("shell", "-v", "0", "--settings", "shop.alone", "-c", script)


def test_check_says_in_words_what_is_missing(project):
    project.write("bare.py", "from django.urls import path\n\nurlpatterns = []\n")
    project.write(
        "missing.py",
        """from shop.settings import *
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "django.contrib.admin"]
ROOT_URLCONF, STATICFILES_DIRS, TEMPLATES[0]["DIRS"] = "shop.bare", [], []
MIDDLEWARE, DATABASES["default"]["OPTIONS"] = [], {}
ASGI_APPLICATION, LOGIN_URL = "shop.plain.application", "/nowhere/"
""",
    )
    project.write(
        "plain.py",
        "from django.core.asgi import get_asgi_application\napplication = get_asgi_application()\n",
    )
    said = project.run("manage.py", "check", "--settings", "shop.missing")
    assert said.returncode == 1
    found = set(re.findall(r"\(((?:chat|gateway)\.\w+)\)", said.stderr))
    wired = {"chat.W003", "gateway.W002"}
    assert found == {
        "chat.E004", "chat.E005", "chat.E006", "chat.W001", "chat.W002", "chat.W004", *wired,
    }, said.stderr  # fmt: skip
    assert "shop.plain.application, the ASGI_APPLICATION, does not use chatsite.chat.routing" in said.stderr
    project.write("unset.py", "from shop.settings import *\ndel ASGI_APPLICATION\n")
    said = project.run("manage.py", "check", "--settings", "shop.unset")
    assert set(re.findall(r"\(((?:chat|gateway)\.\w+)\)", said.stderr)) == wired
    assert "ASGI_APPLICATION is not set" in said.stderr
    project.write(
        "lesser.py",
        'from shop.settings import *\nINSTALLED_APPS.remove("chatsite.policies")\n',
    )
    said = project.run("manage.py", "check", "--settings", "shop.lesser")
    assert "Add to INSTALLED_APPS: chatsite.policies." in said.stderr


def test_three_files_of_the_readme_serve_the_site_with_a_page_of_the_project(tmp_path):
    made = Project(tmp_path)
    made.environment["DATA_DIR"] = str(tmp_path / "data")
    assert made.run("-m", "django", "startproject", "shop", ".").returncode == 0
    for file in ("settings.py", "urls.py", "asgi.py"):
        made.write(file, sample(file, "README.md", "## In a Django project of yours"))
    script = """
from django.test import Client
from shop.asgi import application

client = Client(SERVER_NAME="localhost")
print(client.get("/shop/").content, client.get("/healthz").status_code, client.get("/").headers["location"])
"""
    told = made.manage("shell", "-v", "0", "-c", script)
    assert "b'Yours' 200 /accounts/login/?next=/" in told
