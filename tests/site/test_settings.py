"""Settings come from the environment, and a wrong one ends the start with a sentence."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.exceptions import ImproperlyConfigured

from chatsite import env, env_mcp
from tests.site.processes import manage

WRONG = [
    ({"PORT": "eighty"}, "PORT is 'eighty'; write a number from 0 to 65535."),
    ({"PORT": "70000"}, "PORT is '70000'; write a number from 0 to 65535."),
    ({"SERVER": "gunicorn"}, "SERVER is 'gunicorn'; write daphne or uvicorn."),
    ({"DEBUG": "maybe"}, "DEBUG is 'maybe'; write true or false."),
    ({"DEFAULT_LANGUAGE": "fr"}, "DEFAULT_LANGUAGE is 'fr'; write en or de."),
    ({"EXAMPLE_TOOLS": "2"}, "EXAMPLE_TOOLS is '2'; write true or false."),
    ({"RUN_MAX_TURNS": "0"}, "RUN_MAX_TURNS is '0'; write a number above 0."),
    ({"DRAIN_SECONDS": "-1"}, "DRAIN_SECONDS is '-1'; write a number of seconds from 0 to 3600."),
    ({"RUN_MAX_COST": "cheap"}, "RUN_MAX_COST is 'cheap'; write a number above 0."),
    ({"COMPRESSION_KEEP": "2.5"}, "COMPRESSION_KEEP is '2.5'; write a whole number above 0."),
    (
        {"MODEL_FACTS": '{"gpt-5": {"context": "big"}}'},
        f"MODEL_FACTS holds {{'context': 'big'}} for 'gpt-5'; write {env.FACTS_FORM}.",
    ),
    ({"MODEL_FACTS": "[1]"}, f"MODEL_FACTS is no JSON object; write {env.FACTS_FORM}."),
    (
        {"MODEL_FACTS": "{"},
        "MODEL_FACTS is no JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); "
        f"write {env.FACTS_FORM}.",
    ),
    (
        {"MODEL_PRICES": "gpt-5=1.25"},
        "MODEL_PRICES holds 'gpt-5=1.25'; write MODEL=INPUT/OUTPUT or MODEL=INPUT/OUTPUT/CACHED, a million tokens.",
    ),
    (
        {"MCP_SERVERS": "[{"},
        f"MCP_SERVERS holds no JSON (line 1, column 3); write a list such as {env_mcp.MCP_FORM}.",
    ),
    (
        {"MCP_SERVERS": '[{"name": "a", "url": "https://hunter2@h/"}]'},
        "MCP_SERVERS: server 'a': url must be http://... or https://..., without a user; "
        "what is secret goes into headers.",
    ),
    ({"LOG_LEVEL": "loud"}, "LOG_LEVEL is 'loud'; write DEBUG or INFO or WARNING or ERROR or CRITICAL."),
    (
        {"DATABASE_URL": "mysql://root:hunter2@db/chat"},
        "DATABASE_URL is 'mysql://db/...'; write postgres://USER:PASSWORD@HOST:PORT/NAME or sqlite:///PATH.",
    ),
    (
        {"DATABASE_URL": "postgres://db"},
        "DATABASE_URL is 'postgres://db/...'; write postgres://USER:PASSWORD@HOST:PORT/NAME or sqlite:///PATH.",
    ),
    (
        {"OPENAI_BASE_URL": "localhost:11434/v1"},
        "OPENAI_BASE_URL is 'localhost:...'; write an address that begins with http:// or https://.",
    ),
    (
        {"ANTHROPIC_BASE_URL": "nowhere"},
        "ANTHROPIC_BASE_URL is something that is no address; write an address that begins with http:// or https://.",
    ),
    (
        {"REDIS_URL": "http://localhost"},
        "REDIS_URL is 'http://localhost/...'; write redis://HOST:PORT/NUMBER.",
    ),
    (
        {"CSRF_TRUSTED_ORIGINS": "chat.example.org"},
        "CSRF_TRUSTED_ORIGINS holds something that is no address; write origins like https://chat.example.org.",
    ),
    (
        {"SECRET_KEY_FILE": "/no/such/file"},
        "SECRET_KEY_FILE is '/no/such/file', which cannot be read (No such file or directory); "
        "write another path.",
    ),
    (
        {"OPENAI_API_KEY": "sk-secret", "OPENAI_API_KEY_FILE": "/run/key"},
        "Both OPENAI_API_KEY and OPENAI_API_KEY_FILE are set; keep one of them.",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=lambda value: "-".join(value) if value else None)
def test_a_wrong_value_is_named_with_what_to_write(given, sentence, monkeypatch, tmp_path):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ImproperlyConfigured) as caught:
        read_all(tmp_path)
    assert str(caught.value) == sentence


def read_all(folder):
    """What settings.py asks for, in the same words."""
    env.port("PORT", 8000)
    env.choice("SERVER", ["daphne", "uvicorn"], "daphne")
    env.choice("DEFAULT_LANGUAGE", ["en", "de"], "en")
    env.boolean("DEBUG", False)
    env.boolean("EXAMPLE_TOOLS", True)
    env.seconds("DRAIN_SECONDS", 20)
    env.amount("RUN_MAX_TURNS", 5)
    env.amount("RUN_MAX_COST")
    env.whole("COMPRESSION_KEEP", 8)
    env.prices("MODEL_PRICES")
    env.facts("MODEL_FACTS")
    env_mcp.mcp_servers("MCP_SERVERS")
    env.choice("LOG_LEVEL", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], "INFO")
    env.database("DATABASE_URL", folder / "db.sqlite3")
    env.base_url("OPENAI_BASE_URL")
    env.base_url("ANTHROPIC_BASE_URL")
    env.redis_url("REDIS_URL")
    env.origins("CSRF_TRUSTED_ORIGINS")
    env.secret_key("SECRET_KEY", folder)
    env.text("OPENAI_API_KEY")


@pytest.mark.parametrize("command", ["check", "serve", "migrate"])
def test_a_wrong_value_stops_every_command_without_a_trace(command, tmp_path):
    ended = manage(command, DATA_DIR=str(tmp_path), PORT="http")
    assert ended.returncode != 0
    assert ended.stderr == "PORT is 'http'; write a number from 0 to 65535.\n"
    assert ended.stdout == ""


def test_a_secret_is_not_in_the_sentence(tmp_path):
    ended = manage("check", DATA_DIR=str(tmp_path), DATABASE_URL="mysql://u:hunter2@db/x?password=hunter2")
    assert "DATABASE_URL" in ended.stderr
    assert "hunter2" not in ended.stderr + ended.stdout


def test_a_fresh_machine_needs_no_settings(tmp_path):
    ended = manage("check", DATA_DIR=str(tmp_path / "data"))
    assert ended.returncode == 0, ended.stderr
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700


def test_check_deploy_is_clean_over_https(tmp_path):
    ended = manage(
        "check",
        "--deploy",
        "--fail-level=WARNING",
        DATA_DIR=str(tmp_path),
        HTTPS="true",
        ALLOWED_HOSTS="chat.example.org",
    )
    assert ended.returncode == 0, ended.stderr


def test_a_server_that_answers_nobody_is_warned_of(tmp_path):
    ended = manage("check", "--fail-level=WARNING", DATA_DIR=str(tmp_path), HOST="0.0.0.0")
    assert ended.returncode != 0
    assert "ALLOWED_HOSTS" in ended.stderr


def test_a_value_can_lie_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("sk-from-file\n")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    assert env.text("OPENAI_API_KEY") == "sk-from-file"


def test_a_file_that_is_not_text_is_refused(monkeypatch, tmp_path):
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ImproperlyConfigured, match="not UTF-8"):
        env.text("OPENAI_API_KEY")


def test_an_empty_value_is_no_value(monkeypatch):
    monkeypatch.setenv("PORT", "")
    monkeypatch.setenv("DEBUG", "")
    assert env.port("PORT", 8000) == 8000
    assert env.boolean("DEBUG", True) is True


@pytest.mark.parametrize(("raw", "value"), [("true", True), ("FALSE", False), ("1", True), ("off", False)])
def test_booleans_are_read_as_people_write_them(raw, value, monkeypatch):
    monkeypatch.setenv("DEBUG", raw)
    assert env.boolean("DEBUG", not value) is value


def test_lists_are_parted_by_commas(monkeypatch):
    monkeypatch.setenv("OPENAI_MODELS", " gpt-5 ,, llama3:8b ")
    assert env.listing("OPENAI_MODELS") == ["gpt-5", "llama3:8b"]


def test_a_base_url_loses_its_last_slash(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[::1]:11434/v1/")
    assert env.base_url("OPENAI_BASE_URL") == "http://[::1]:11434/v1"


def test_a_postgresql_address_is_taken_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "postgres://me:p%40ss@db.local:5433/chat?sslmode=require")
    assert env.database("DATABASE_URL", tmp_path) == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "chat",
        "USER": "me",
        "PASSWORD": "p@ss",
        "HOST": "db.local",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }


@pytest.mark.parametrize(
    ("url", "path"), [("sqlite:///a.db", "a.db"), ("sqlite:////srv/a b.db", "/srv/a b.db")]
)
def test_a_sqlite_address_names_a_file(url, path, monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", url)
    assert env.database("DATABASE_URL", tmp_path)["NAME"] == path


def test_without_an_address_the_database_lies_in_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert env.database("DATABASE_URL", tmp_path / "50% #1.sqlite3")["NAME"] == str(
        tmp_path / "50% #1.sqlite3"
    )


def test_the_secret_key_is_made_once_and_for_its_owner_alone(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    with ThreadPoolExecutor(16) as pool:
        keys = set(pool.map(lambda _: env.secret_key("SECRET_KEY", tmp_path), range(64)))
    assert len(keys) == 1
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret_key"]


def test_a_secret_key_that_others_could_read_is_closed(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    key = env.secret_key("SECRET_KEY", tmp_path)
    (tmp_path / "secret_key").chmod(0o644)
    assert env.secret_key("SECRET_KEY", tmp_path) == key
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_an_empty_key_file_is_not_taken_for_a_key(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    (tmp_path / "secret_key").write_text("\n")
    with pytest.raises(ImproperlyConfigured, match="is empty"):
        env.secret_key("SECRET_KEY", tmp_path)


def test_a_data_folder_that_is_a_file_is_refused(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "file" / "data"))
    with pytest.raises(ImproperlyConfigured, match=r"DATA_DIR is .* cannot be made"):
        env.data_dir("DATA_DIR", tmp_path)


def test_sqlite_takes_its_write_lock_at_once_and_logs_ahead(settings):
    if settings.DATABASES["default"]["ENGINE"] != "django.db.backends.sqlite3":
        pytest.skip("runs on PostgreSQL")
    options = settings.DATABASES["default"]["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert options["timeout"] == 20
    assert "journal_mode=WAL" in options["init_command"]


def test_no_middleware_forces_requests_into_a_thread(settings):
    from django.utils.module_loading import import_string

    assert all(import_string(name).async_capable for name in settings.MIDDLEWARE)
