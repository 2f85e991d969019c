"""What `deploy/` and the Dockerfile name is there."""

from __future__ import annotations

import re

import yaml

from tests.site.processes import ROOT

README = (ROOT / "README.md").read_text()
COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "threadloom.service").read_text()

# Known to the interpreter and to compose itself.
NOT_OURS = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


def in_the_table(name: str) -> bool:
    return re.search(rf"^\|.*`{name}`.*\|", README, re.MULTILINE) is not None


def test_every_setting_that_they_set_is_in_the_table():
    named = set(COMPOSE["services"]["app-1"]["environment"])
    named |= set(re.findall(r"([A-Z_]+)=", "".join(re.findall(r"^ENV .*", DOCKERFILE, re.MULTILINE))))
    named |= set(re.findall(r"([A-Z_]+)=", "".join(re.findall(r"^Environment=.*", UNIT, re.MULTILINE))[12:]))
    assert [name for name in sorted(named - NOT_OURS) if not in_the_table(name)] == []


def test_the_compose_file_is_whole():
    services = COMPOSE["services"]
    assert COMPOSE["services"]["app-2"] == COMPOSE["services"]["app-1"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            name = volume.split(":")[0]
            assert name in COMPOSE["volumes"] or (ROOT / "deploy" / name).exists(), volume
    for host in re.findall(r"@(\w+):|//(\w+):\d", str(services["app-1"]["environment"])):
        assert set(filter(None, host)) <= services.keys()
    assert "ports" not in services["postgres"]
    assert "ports" not in services["redis"]


def test_the_image_holds_what_the_server_needs_and_nothing_else():
    copied = re.findall(r"^COPY (\S+)", DOCKERFILE, re.MULTILINE)
    assert all((ROOT / each).exists() for each in copied)
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set(copied) == let_in
