"""Groups in the admin: what a group may is said by who may do everything, and is on record."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from chatsite.audit.models import Entry

LIST = "/admin/auth/group/"


def test_what_becomes_of_a_group_is_in_the_audit_log(admin):
    reads, adds = (Permission.objects.get(codename=name) for name in ("view_user", "add_invitation"))
    assert admin.post(f"{LIST}add/", {"name": "support", "permissions": [reads.pk]}).status_code == 302
    group = Group.objects.get()
    changed = {"name": "support", "permissions": [reads.pk, adds.pk]}
    assert admin.post(f"{LIST}{group.pk}/change/", changed).status_code == 302
    chosen = {"action": "delete_selected", "_selected_action": [group.pk], "post": "yes"}
    assert admin.post(LIST, chosen).status_code == 302
    assert not Group.objects.exists()
    entries = list(Entry.objects.filter(subject="group support").order_by("number"))
    assert [(entry.action, entry.facts.get("may")) for entry in entries] == [
        ("group.made", "view_user"),
        ("group.changed", "add_invitation, view_user"),
        ("group.deleted", None),
    ]
    assert {entry.actor_name for entry in entries} == {"root"}


@pytest.mark.parametrize("path", ["add/", "{pk}/change/", "{pk}/delete/"])
def test_who_may_not_do_everything_gives_their_own_group_no_rights(db, path):
    clerk = User.objects.create_user("clerk", is_staff=True)
    group = Group.objects.create(name="clerks")
    clerk.groups.add(group)
    names = ["view_group", "add_group", "change_group", "delete_group"]
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(clerk)
    assert client.get(LIST).status_code == 200
    asked = {
        "name": "clerks",
        "permissions": [Permission.objects.get(codename="delete_user").pk],
        "post": "yes",
    }
    assert client.post(LIST + path.format(pk=group.pk), asked).status_code == 403
    assert not group.permissions.exists()
