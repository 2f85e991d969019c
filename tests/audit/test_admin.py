"""The log in Django admin: read, filtered, searched; never written."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from chatsite.audit import log
from chatsite.audit.models import Entry

LIST = "admin:audit_entry_changelist"


@pytest.fixture
def root(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def rows(client: Client, **query: str) -> list[int]:
    answer = client.get(reverse(LIST), query)
    assert answer.status_code == 200
    return [row.number for row in answer.context["cl"].result_list]


def test_the_list_is_filtered_and_searched(root, three, ada):
    log.record("login.failed", subject="user <b>mallory</b>")
    assert rows(root) == [4, 3, 2, 1]
    assert rows(root, action="login.failed") == [4]
    assert rows(root, actor="ada") == [3, 2, 1]
    assert rows(root, q="user <b>mal") == [4]
    assert rows(root, q="ada") == [3, 2, 1]
    assert rows(root, q="key 1") == [2]
    assert rows(root, since="2999-01-01") == []
    assert rows(root, until="2999-01-01") == [4, 3, 2, 1]
    assert "<b>mallory</b>" not in root.get(reverse(LIST)).text


def test_an_entry_is_shown_with_its_facts_and_cannot_be_written(root, three):
    address = reverse("admin:audit_entry_change", args=[2])
    shown = root.get(address)
    assert shown.status_code == 200
    assert "scopes" in shown.text
    assert three[1].hash in shown.text
    assert root.post(address, {"reason": "x"}).status_code == 403
    assert root.post(reverse("admin:audit_entry_delete", args=[2]), {"post": "yes"}).status_code == 403
    assert root.get(reverse("admin:audit_entry_add")).status_code == 403
    assert Entry.objects.count() == 3


def test_staff_needs_the_permission_to_read_it(three):
    clerk = User.objects.create_user("clerk", is_staff=True)
    client = Client()
    client.force_login(clerk)
    assert client.get(reverse(LIST)).status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_entry", content_type__app_label="audit"))
    assert client.get(reverse(LIST)).status_code == 200
