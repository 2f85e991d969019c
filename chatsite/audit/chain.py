"""What holds the entries together.

    hash of an entry    SHA-256 over its canonical JSON, which holds the hash of the entry before it
    seal of the head    HMAC-SHA-256, by a key made from SECRET_KEY, over number and hash of the last entry

What this proves: an entry that is changed, removed or put in between breaks the chain behind it. Whoever can write to
the database can make the whole chain anew, but not the seal, unless SECRET_KEY is theirs too. The next entry that is
written finds the wrong seal and says so in the chain itself ("audit.seal_broken").

What it does not prove: that nobody put back an older, whole copy of the database (its seal was right once), nor
anything against somebody who also has SECRET_KEY. Against both helps a copy of "NUMBER:HASH" kept elsewhere, which
`verify_audit` prints and takes (`--expect`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC

from django.conf import settings

from chatsite.audit.models import Entry, Head

PURPOSE = b"threadloom.audit.head"


def hash_of(entry: Entry) -> str:
    """Facts are plain JSON without fractions, so every database gives back what was hashed."""
    said = {
        "number": entry.number,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "action": entry.action,
        "actor_id": entry.actor_id,
        "actor_name": entry.actor_name,
        "subject": entry.subject,
        "reason": entry.reason,
        "door": entry.door,
        "facts": entry.facts,
        "previous": entry.previous,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def seal_of(head: Head) -> str:
    return _seal(head, settings.SECRET_KEY)


def seal_fits(head: Head) -> bool:
    """Also when it was made with one of SECRET_KEY_FALLBACKS. A chain without an entry has no seal."""
    if not head.number:
        return not head.seal and not head.hash
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return any(hmac.compare_digest(head.seal, _seal(head, key)) for key in keys)


def _seal(head: Head, secret: str) -> str:
    key = hashlib.sha256(PURPOSE + b"\0" + secret.encode()).digest()
    return hmac.new(key, f"{head.number}:{head.hash}".encode(), hashlib.sha256).hexdigest()
