"""What `deploy/` and the Dockerfile say holds: they are run by hand, in containers, and nothing here starts one."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.site.processes import ROOT

TABLE = (ROOT / "docs" / "configuration.md").read_text()
COMPOSE_TEXT = (ROOT / "deploy" / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = (ROOT / "deploy" / "threadloom.service").read_text()

# Known to the interpreter and to compose itself.
NOT_OURS = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


def in_the_table(name: str) -> bool:
    return re.search(rf"^\|.*`{name}`.*\|", TABLE, re.MULTILINE) is not None


def test_every_setting_that_they_set_is_in_the_table():
    named = set(SERVICES["app-1"]["environment"])
    named |= set(re.findall(r"([A-Z_]+)=", "".join(re.findall(r"^ENV .*", DOCKERFILE, re.MULTILINE))))
    named |= set(re.findall(r"([A-Z_]+)=", "".join(re.findall(r"^Environment=.*", UNIT, re.MULTILINE))[12:]))
    assert [name for name in sorted(named - NOT_OURS) if not in_the_table(name)] == []


def test_the_compose_file_is_whole():
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
        for volume in service.get("volumes", ()):
            name = volume.split(":")[0]
            assert name in COMPOSE["volumes"] or (ROOT / "deploy" / name).exists(), volume
    for host in re.findall(r"@(\w+):|//(\w+):\d", str(SERVICES["app-1"]["environment"])):
        assert set(filter(None, host)) <= SERVICES.keys()


def test_both_servers_are_one_image_that_is_built_once_and_one_migrates_before_the_other_starts():
    first, second = dict(SERVICES["app-1"]), dict(SERVICES["app-2"])
    assert first.pop("build") == ".."
    assert second.pop("pull_policy") == "never"
    waits, waits_longer = first.pop("depends_on"), second.pop("depends_on")
    assert waits_longer == {**waits, "app-1": {"condition": "service_healthy"}}
    assert {each["condition"] for each in waits.values()} == {"service_healthy"}
    assert first == second


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_rights_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["options"]["max-size"]
    assert service.get("read_only") or name == "postgres"
    assert ("ports" in service) == (name == "caddy")
    assert not service.get("privileged")
    assert ":latest" not in service["image"]


def test_a_program_in_the_network_finds_the_proxy_under_the_name_that_everybody_calls():
    caddy = COMPOSE["services"]["caddy"]
    assert caddy["networks"]["default"]["aliases"] == [caddy["environment"]["DOMAIN"]]


def test_nothing_secret_has_a_default_and_what_is_missing_says_what_to_write():
    asked = dict(re.findall(r"\$\{([A-Z_]+):\?([^}]*)\}", COMPOSE_TEXT))
    assert set(re.findall(r"\$\{([A-Z_]+)", COMPOSE_TEXT)) == set(asked) == {"DOMAIN", "POSTGRES_PASSWORD"}
    words = re.findall(r"\$\{([A-Z_]+):\?([^}]+)\}", COMPOSE_TEXT)
    assert all(text.startswith(f"write {name}=") and "deploy/.env" in text for name, text in words)
    assert {name for name, _ in words} == set(asked)
    assert "/deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_a_server_is_given_longer_to_stop_than_its_answers_have():
    app = SERVICES["app-1"]
    assert int(app["stop_grace_period"].removesuffix("s")) > int(app["environment"]["DRAIN_SECONDS"]) + 5
    assert int(re.search(r"TimeoutStopSec=(\d+)", UNIT)[1]) > 25


def test_the_image_holds_what_the_server_needs_and_nothing_else():
    copied = re.findall(r"^COPY (\S+)", DOCKERFILE, re.MULTILINE)
    assert all((ROOT / each).exists() for each in copied)
    first, *lines = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")
    ]
    assert first == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied)
    assert [line for line in lines if not line.startswith("!")] == ["**/__pycache__"]
    assert not {".", ".git", ".venv", "var", "deploy"} & set(copied)


def test_the_image_runs_the_command_of_make_run_as_nobody_special():
    assert 'CMD ["python", "manage.py", "serve"]' in DOCKERFILE
    assert re.search(r"python manage\.py serve$", UNIT, re.MULTILINE)
    assert "manage.py serve" in (ROOT / "Makefile").read_text()
    assert DOCKERFILE.index("\nUSER threadloom\n") < DOCKERFILE.index("\nCMD ")
    assert re.search(r"^FROM python:3\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert "VOLUME /data" in DOCKERFILE
    assert "DATA_DIR=/data" in DOCKERFILE


def test_the_unit_keeps_the_server_to_its_own_data():
    for line in (
        "User=threadloom",
        "ProtectSystem=strict",
        "StateDirectory=threadloom",
        "NoNewPrivileges=true",
        "CapabilityBoundingSet=",
        "SystemCallFilter=@system-service",
        "SystemCallFilter=~@privileged @resources",
        "MemoryDenyWriteExecute=true",
    ):
        assert line in UNIT.splitlines()
