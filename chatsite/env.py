"""Settings out of the environment.

Rule 1: a value comes from NAME, or from the file that NAME_FILE points at, never from both.
Rule 2: a wrong value is an ImproperlyConfigured whose one sentence names the variable, what was given and
        what to write. What may hold a secret is never in that sentence.
Rule 3: an empty value is no value: compose files and shells pass on variables that nobody filled.
"""

import json
import os
import secrets
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

YES = {"true", "1", "yes", "on"}
NO = {"false", "0", "no", "off"}
DATABASE_URL_FORMS = "postgres://USER:PASSWORD@HOST:PORT/NAME or sqlite:///PATH"


def text(name: str, default: str = "") -> str:
    given = os.environ.get(name, "")
    file = os.environ.get(f"{name}_FILE", "")
    if given and file:
        raise ImproperlyConfigured(f"Both {name} and {name}_FILE are set; keep one of them.")
    return given.strip() or (_file_content(f"{name}_FILE", file) if file else "") or default


def boolean(name: str, default: bool) -> bool:
    raw = text(name)
    if not raw:
        return default
    if raw.lower() not in YES | NO:
        raise ImproperlyConfigured(f"{name} is {raw!r}; write true or false.")
    return raw.lower() in YES


def choice(name: str, choices: Collection[str], default: str) -> str:
    raw = text(name, default)
    for known in choices:
        if raw.lower() == known.lower():
            return known
    raise ImproperlyConfigured(f"{name} is {raw!r}; write {' or '.join(choices)}.")


def port(name: str, default: int) -> int:
    """A TCP port. 0 is one too: the system then picks any that is free."""
    raw = text(name, str(default))
    # isdecimal() also likes the digits of other scripts, and int() would take them.
    if not (raw.isascii() and raw.isdecimal() and int(raw) <= 65535):
        raise ImproperlyConfigured(f"{name} is {raw!r}; write a number from 0 to 65535.")
    return int(raw)


def amount(name: str, default: float | None = None) -> float | None:
    """A number above 0, or None for no limit."""
    raw = text(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ImproperlyConfigured(f"{name} is {raw!r}; write a number above 0.")
    return value


def json_object(name: str) -> dict[str, object]:
    """A JSON object, written out or in the file whose path is the value. It is never shown: it holds keys."""
    raw = text(name)
    if not raw:
        return {}
    is_path = not raw.startswith("{") and not set('"[]\n') & set(raw)
    try:
        value = json.loads(_file_content(name, raw) if is_path else raw)
    except (ValueError, RecursionError) as exc:
        where = f" (line {exc.lineno}, column {exc.colno})" if isinstance(exc, json.JSONDecodeError) else ""
        raise ImproperlyConfigured(
            f"{name} holds no JSON{where}; write an object, or the path of a file."
        ) from None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f"{name} must be a JSON object, or the path of a file that holds one.")
    return value


def whole(name: str, default: int) -> int:
    """A whole number above 0."""
    raw = text(name, str(default))
    if not (raw.isascii() and raw.isdecimal() and 0 < int(raw) < 10**12):
        raise ImproperlyConfigured(f"{name} is {raw!r}; write a whole number above 0.")
    return int(raw)


def number(name: str, default: int) -> int:
    """A whole number, 0 too."""
    return 0 if text(name) == "0" else whole(name, default) if text(name) else default


def seconds(name: str, default: float) -> float:
    """0 or more of them."""
    raw = text(name)
    try:
        value = float(raw) if raw else default
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:  # NaN is neither
        raise ImproperlyConfigured(f"{name} is {raw!r}; write a number of seconds from 0 to 3600.")
    return value


def prices(name: str) -> dict[str, tuple[float, ...]]:
    """Model -> (input, output[, cached input]) a million tokens, from `model=1.25/10/0.125, other=3/15`."""
    table: dict[str, tuple[float, ...]] = {}
    for item in listing(name):
        model, _, figures = item.partition("=")
        try:
            table[model.strip()] = tuple(float(figure) for figure in figures.split("/"))
        except ValueError:
            table[model.strip()] = ()
        known = table[model.strip()]
        sane = all(0 <= figure < float("inf") for figure in known)  # NaN is neither
        if not model.strip() or len(known) not in {2, 3} or not sane:
            raise ImproperlyConfigured(
                f"{name} holds {item!r}; write MODEL=INPUT/OUTPUT or MODEL=INPUT/OUTPUT/CACHED, a million tokens."
            )
    return table


FACTS = {"context": int, "images": bool, "tools": bool}
FACTS_FORM = '{"MODEL": {"context": 128000, "images": true, "tools": true}}'


def facts(name: str) -> dict[str, dict[str, int | bool]]:
    """Model -> what it can do, from JSON in FACTS_FORM; each of the three may be left out."""
    raw = text(name)
    try:
        table = json.loads(raw) if raw else {}
    except (ValueError, RecursionError) as exc:
        raise ImproperlyConfigured(f"{name} is no JSON ({exc}); write {FACTS_FORM}.") from None
    if not isinstance(table, dict):
        raise ImproperlyConfigured(f"{name} is no JSON object; write {FACTS_FORM}.")
    for model, known in table.items():
        if not isinstance(known, dict) or not all(_is_fact(*each) for each in known.items()):
            raise ImproperlyConfigured(f"{name} holds {known!r} for {model!r}; write {FACTS_FORM}.")
    return table


def _is_fact(name: str, value: object) -> bool:
    return type(value) is FACTS.get(name) and (name != "context" or value > 0)


def listing(name: str, default: Collection[str] = ()) -> list[str]:
    return [item.strip() for item in text(name).split(",") if item.strip()] or list(default)


def base_url(name: str) -> str:
    """An http(s) address without its last slash, or "" when nothing is given."""
    raw = text(name)
    if not raw:
        return ""
    parts = _split(raw)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ImproperlyConfigured(
            f"{name} is {_shown(raw)}; write an address that begins with http:// or https://."
        )
    return raw.rstrip("/")


def origins(name: str) -> list[str]:
    for origin in listing(name):
        parts = _split(origin)
        if parts is None or parts.scheme not in {"http", "https"} or not parts.netloc or parts.path:
            raise ImproperlyConfigured(
                f"{name} holds {_shown(origin)}; write origins like https://chat.example.org."
            )
    return listing(name)


def redis_url(name: str) -> str:
    raw = text(name)
    parts = _split(raw)
    if raw and (parts is None or parts.scheme not in {"redis", "rediss", "unix"}):
        raise ImproperlyConfigured(f"{name} is {_shown(raw)}; write redis://HOST:PORT/NUMBER.")
    return raw


def database(name: str, default: Path) -> dict[str, object]:
    """Django's ENGINE, NAME and so on; a PostgreSQL address's query (`?sslmode=require`) becomes OPTIONS."""
    raw = text(name, f"sqlite:///{default}")
    parts = _split(raw)
    scheme = parts.scheme if parts else ""
    if parts and scheme in {"postgres", "postgresql"} and parts.path.strip("/"):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.strip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(parts.port or ""),
            "OPTIONS": dict(parse_qsl(parts.query)),
        }
    if parts and scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        # Three slashes and then the path, as elsewhere: sqlite:///a.db is relative, sqlite:////a.db is not.
        path = str(default) if not text(name) else unquote(parts.path[1:])
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": path}
    raise ImproperlyConfigured(f"{name} is {_shown(raw)}; write {DATABASE_URL_FORMS}.")


def data_dir(name: str, default: Path) -> Path:
    """The folder for everything that must outlive the process, made on first use and for its owner alone."""
    path = Path(text(name, str(default))).expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} is {str(path)!r}, which cannot be made ({exc.strerror}); write another folder."
        ) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise ImproperlyConfigured(f"{name} is {str(path)!r}, which cannot be written; write another folder.")
    return path


def secret_key(name: str, folder: Path) -> str:
    """The given key, or the one kept in `folder`, made when there is none."""
    return text(name) or _kept_key(name, folder / "secret_key")


def _kept_key(name: str, path: Path) -> str:
    try:
        if not path.exists():
            _keep_once(path, secrets.token_urlsafe(64))
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(0o600)
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ImproperlyConfigured(
            f"{str(path)!r} cannot be read or made ({exc}); mend it, or set {name}."
        ) from None
    if not key:
        raise ImproperlyConfigured(f"{str(path)!r} is empty; delete it to get a new key, or set {name}.")
    return key


def _keep_once(path: Path, content: str) -> None:
    """Write the file whole or not at all. Of two processes, one wins and the other finds its file."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content)
        os.link(draft, path)  # unlike a rename, a link does not replace what is there
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def _file_content(name: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as exc:
        raise ImproperlyConfigured(
            f"{name} is {file!r}, which cannot be read ({exc.strerror}); write another path."
        ) from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name} is {file!r}, which is not UTF-8 text.") from None


def _split(raw: str) -> SplitResult | None:
    try:
        parts = urlsplit(raw)
        _ = parts.port  # a bad port is found out only when it is asked for
    except ValueError:
        return None
    return parts


def _shown(raw: str) -> str:
    """What can be told of an address: not its user, password, path or query, where keys tend to be."""
    parts = _split(raw)
    if parts is None or not parts.scheme:
        return "something that is no address"
    return repr(f"{parts.scheme}://{parts.hostname}/..." if parts.hostname else f"{parts.scheme}:...")
