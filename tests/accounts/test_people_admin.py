"""Users in the admin: nobody gives more than they have, and what is ended is ended at once."""

from __future__ import annotations

import re

import pytest
from allauth.mfa.models import Authenticator
from django.contrib import admin as admin_site
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from chatsite.audit.models import Entry
from tests.accounts.test_login import SECRET, sign_in

LIST = "/admin/auth/user/"


def act(client: Client, action: str, *who: User):
    return client.post(LIST, {"action": action, "_selected_action": [each.pk for each in who]}, follow=True)


def change(who: User) -> str:
    return f"{LIST}{who.pk}/change/"


def filled(client: Client, who: User) -> dict[str, object]:
    form = client.get(change(who)).context["adminform"].form
    values = {name: form[name].value() for name in form.fields if form[name].value() not in (None, False)}
    for name in ("last_login", "date_joined"):
        moment = values.pop(name, None)
        values |= {f"{name}_0": f"{moment:%Y-%m-%d}", f"{name}_1": f"{moment:%H:%M:%S}"} if moment else {}
    return {name: value for name, value in values.items() if not isinstance(value, list) or value}


@pytest.fixture
def clerk(db) -> Client:
    who = User.objects.create_user("clerk", is_staff=True)
    who.user_permissions.add(
        *Permission.objects.filter(codename__in=["view_user", "change_user", "delete_user"])
    )
    client = Client()
    client.force_login(who)
    return client


def test_deactivating_ends_sessions_at_once_and_is_on_record(admin, person):
    ada = Client()
    sign_in(ada)
    assert "Deactivated 1 user." in act(admin, "deactivate", person).text
    assert ada.get("/accounts/").status_code == 302
    assert not person.sign_ins.exists()
    entry = Entry.objects.get(action="user.deactivated")
    assert (entry.actor_name, entry.subject) == ("root", "user ada")


def test_the_switch_in_the_form_does_the_same(admin, person):
    form = filled(admin, person)
    form.pop("is_active")
    assert admin.post(change(person), form).status_code == 302
    person.refresh_from_db()
    assert not person.is_active
    assert Entry.objects.filter(action="user.deactivated").count() == 1


def test_groups_are_given_and_the_change_is_on_record(admin, person):
    writers = Group.objects.create(name="writers")
    assert admin.post(change(person), filled(admin, person) | {"groups": [writers.pk]}).status_code == 302
    assert list(person.groups.all()) == [writers]
    assert "groups" in Entry.objects.get(action="user.changed").facts["fields"]


def test_nobody_deactivates_themselves_by_a_list(admin):
    act(admin, "deactivate", User.objects.get(username="root"))
    assert User.objects.get(username="root").is_active


def test_a_link_for_a_new_password_is_shown_once_and_works(admin, person):
    shown = act(admin, "make_links", person)
    path = re.search(r'value="http://testserver(/accounts/password/reset/key/[^"]+)"', shown.text)[1]
    assert "no-store" in shown.headers["Cache-Control"]
    client = Client()
    form = client.get(path, follow=True).redirect_chain[-1][0]
    new = {"password1": "an even longer secret", "password2": "an even longer secret"}
    assert client.post(form, new).status_code == 302
    assert sign_in(Client(), "ada", "an even longer secret").status_code == 302
    assert path.split("-")[-1].strip("/") not in str(list(Entry.objects.values()))


def test_a_password_set_in_the_admin_ends_their_sessions_and_is_on_record(admin, person):
    ada = Client()
    sign_in(ada)
    form = {
        "password1": "an even longer secret",
        "password2": "an even longer secret",
        "usable_password": "true",
    }
    assert admin.post(f"{LIST}{person.pk}/password/", form).status_code == 302
    assert ada.get("/accounts/").status_code == 302
    assert Entry.objects.get(action="password.changed").actor_name == "root"


def test_the_admin_has_no_page_of_its_own_for_ones_password(admin):
    for answer in (admin.get("/admin/password_change/"), admin.post("/admin/password_change/", {})):
        assert answer.headers["Location"] == "/accounts/password/change/"


def test_sessions_are_ended_from_outside(admin, person):
    ada = Client()
    sign_in(ada)
    assert "Ended 1 session." in act(admin, "end_sessions", person).text
    assert ada.get("/accounts/").status_code == 302
    assert sign_in(Client()).status_code == 302


def test_lost_second_factors_are_removed(admin, person):
    Authenticator.objects.create(user=person, type="totp", data={"secret": "x"})
    assert "Removed those of 1 user." in act(admin, "remove_factors", person).text
    assert not Authenticator.objects.exists()
    assert Entry.objects.filter(action="factor.removed", actor_name="root").exists()


@pytest.mark.parametrize("action", ["deactivate", "make_links", "end_sessions", "remove_factors"])
def test_a_clerk_touches_no_superuser(action, clerk, admin):
    root = User.objects.get(username="root")
    shown = act(clerk, action, root).text
    assert "password/reset/key" not in shown
    root.refresh_from_db()
    assert root.is_active
    assert admin.get("/accounts/").status_code == 200
    assert clerk.post(change(root), {"username": "root"}).status_code == 403
    assert clerk.post(f"{LIST}{root.pk}/delete/", {"post": "yes"}).status_code == 403


def test_a_clerk_gives_nobody_what_they_do_not_have(clerk, person):
    power = Group.objects.create(name="power")
    form = {
        "username": "ada",
        "is_active": "on",
        "is_staff": "on",
        "is_superuser": "on",
        "groups": [power.pk],
    }
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    assert clerk.post(change(person), form | joined).status_code == 302
    person.refresh_from_db()
    assert (person.is_staff, person.is_superuser, list(person.groups.all())) == (False, False, [])


def test_rows_that_hold_secrets_are_in_no_admin(admin):
    shown = {model._meta.label for model in admin_site.site._registry}
    assert not shown & {"mfa.Authenticator", "socialaccount.SocialToken", "socialaccount.SocialApp"}
    assert admin.get(LIST).status_code == 200
    assert SECRET not in admin.get(LIST).text


def test_who_is_no_superuser_gets_into_no_account_that_opens_the_admin(clerk, person):
    other = User.objects.create_user("auditor", password=SECRET, is_staff=True)
    shown = act(clerk, "make_links", other, person).text
    assert "ada" in shown
    assert "auditor" not in shown
    new = {"password1": "quite another secret", "password2": "quite another secret"}
    assert clerk.post(f"{LIST}{other.pk}/password/", new).status_code == 403
    other.refresh_from_db()
    assert other.check_password(SECRET)


def test_only_who_may_do_everything_says_that_an_address_is_proven(admin, clerk, person):
    clerk_row = User.objects.get(username="clerk")
    names = ["add_emailaddress", "change_emailaddress", "view_emailaddress"]
    clerk_row.user_permissions.add(*Permission.objects.filter(codename__in=names))
    address = {"user": person.pk, "email": "clerk@example.org", "verified": "on"}
    for way in ("add/", ""):
        assert clerk.get(f"/admin/account/emailaddress/{way}").status_code == 403
    assert clerk.post("/admin/account/emailaddress/add/", address).status_code == 403
    assert admin.post("/admin/account/emailaddress/add/", address).status_code == 302
