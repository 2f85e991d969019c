"""The first administrator comes through a link that works once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test import Client

from chatsite.operator import setup_link
from chatsite.operator.models import SetupLink

ACCOUNT = {"username": "ada", "password1": "a long enough phrase", "password2": "a long enough phrase"}


@pytest.mark.django_db
def test_the_link_makes_the_first_administrator_and_logs_them_in(client):
    path = f"/setup/{setup_link.renew_link()}/"
    assert client.get(path).status_code == 200
    answer = client.post(path, ACCOUNT)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    ada = User.objects.get()
    assert ada.is_superuser
    assert ada.is_staff
    assert client.session["_auth_user_id"] == str(ada.pk)


@pytest.mark.django_db
def test_the_link_works_once(client):
    path = f"/setup/{setup_link.renew_link()}/"
    client.post(path, ACCOUNT)
    User.objects.update(is_superuser=False)  # so that only the used link stands in the way
    assert client.get(path).status_code == 404
    assert client.post(path, ACCOUNT | {"username": "eve"}).status_code == 404
    assert User.objects.count() == 1


@pytest.mark.django_db
def test_a_link_is_worth_nothing_once_there_is_an_administrator(client):
    path = f"/setup/{setup_link.renew_link()}/"
    User.objects.create_superuser("root")
    assert client.get(path).status_code == 404
    assert client.post(path, ACCOUNT).status_code == 404
    assert setup_link.renew_link() is None
    assert not SetupLink.objects.exists()


@pytest.mark.django_db
def test_a_link_lasts_a_day(client):
    path = f"/setup/{setup_link.renew_link()}/"
    SetupLink.objects.update(expires_at=F("expires_at") - timedelta(hours=24))
    assert client.get(path).status_code == 404
    assert client.post(path, ACCOUNT).status_code == 404


@pytest.mark.django_db
def test_a_new_start_prints_a_new_link_and_ends_the_old_one(client):
    old, new = setup_link.renew_link(), setup_link.renew_link()
    assert client.get(f"/setup/{old}/").status_code == 404
    assert client.get(f"/setup/{new}/").status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("token", ["x", "Ä", "0" * 5000])
def test_a_guess_is_not_found_in_words(token, client):
    setup_link.renew_link()
    answer = client.get(f"/setup/{token}/")
    assert answer.status_code == 404
    assert "worth nothing" in answer.text


@pytest.mark.django_db
def test_the_token_is_kept_as_a_hash():
    token = setup_link.renew_link()
    assert token not in str(SetupLink.objects.values().get())
    assert len(token) >= 43  # 32 bytes


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [{"password2": "another phrase"}, {"password1": "12345", "password2": "12345"}, {"username": ""}],
)
def test_a_form_with_a_mistake_keeps_the_link_and_the_name(change, client):
    path = f"/setup/{setup_link.renew_link()}/"
    answer = client.post(path, ACCOUNT | change)
    assert answer.status_code == 200
    assert "errorlist" in answer.text
    assert client.post(path, ACCOUNT).status_code == 302


@pytest.mark.django_db
def test_a_post_from_another_site_is_refused():
    path = f"/setup/{setup_link.renew_link()}/"
    assert Client(enforce_csrf_checks=True).post(path, ACCOUNT).status_code == 403


@pytest.mark.django_db
def test_the_page_is_not_cached_and_does_not_tell_its_address(client):
    answer = client.get(f"/setup/{setup_link.renew_link()}/")
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["Referrer-Policy"] == "same-origin"


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_becomes_administrator():
    path = f"/setup/{setup_link.renew_link()}/"

    def attempt(name: str) -> int:
        try:
            return Client().post(path, ACCOUNT | {"username": name}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(attempt, ["ada", "eve", "mallory", "oscar"]))
    assert codes == [302, 404, 404, 404]
    assert User.objects.count() == 1
