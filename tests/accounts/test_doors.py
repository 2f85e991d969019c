"""Who tries too often waits, at every door, and learns nothing from it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from chatsite.accounts import addresses, doors
from chatsite.accounts.models import Attempts
from tests.accounts.test_login import LOGIN, SECRET, sign_in, signed_in

EVERY = doors.DOORS["login"].account.most


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1_800_000_000.0

        def time(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(doors, "time", clock)
    return clock


def fail(client: Client, times: int, login: str = "ada") -> list[int]:
    return [sign_in(client, login, "wrong").status_code for _ in range(times)]


@pytest.mark.parametrize("login", ["ada", "nobody"])
def test_after_ten_wrong_passwords_an_account_waits_whether_it_is_there_or_not(login, person, client, clock):
    assert fail(client, EVERY, login) == [200] * EVERY
    answer = sign_in(client, login)
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "900"
    assert "Try again in 15 minutes." in answer.text
    assert not signed_in(client)
    clock.now += 901
    assert sign_in(client, "ada").status_code == 302


def test_an_address_waits_that_tries_one_account_after_another(person, client):
    most = doors.DOORS["login"].address.most
    codes = [sign_in(client, f"name{number}", "wrong").status_code for number in range(most)]
    assert codes == [200] * most
    assert sign_in(client).status_code == 429
    other = Client(REMOTE_ADDR="192.0.2.7")
    assert sign_in(other).status_code == 302


def test_who_is_right_is_not_counted(person, client):
    for _ in range(EVERY + 5):
        assert sign_in(Client()).status_code == 302
    assert not Attempts.objects.filter(tries__gt=0).exists()


def test_what_is_kept_of_an_attempt_is_no_name(person, client):
    fail(client, 1, "persephone")
    kept = str(list(Attempts.objects.values()))
    assert "persephone" not in kept
    assert "127.0.0.1" not in kept


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_none_slips_through():
    User.objects.create_user("ada", password=SECRET)

    def attempt(_: int) -> int:
        try:
            return sign_in(Client(), "ada", "wrong").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(attempt, range(EVERY * 2)))
    assert codes.count(200) == EVERY
    assert codes.count(429) == EVERY


def test_old_counts_go(person, client, clock, monkeypatch):
    fail(client, 2)
    monkeypatch.setattr(doors, "TIDY_EACH", 1)
    clock.now += 1000
    fail(client, 1, "eve")
    assert Attempts.objects.count() == 2


@pytest.mark.parametrize(
    ("door", "ask"),
    [
        ("setup", lambda client, n: client.get(f"/setup/guess-{n}/")),
        ("link", lambda client, n: client.get(f"/accounts/password/reset/key/1-guess{n}-x/")),
        ("reset", lambda client, n: client.post("/accounts/password/reset/", {"email": f"a{n}@example.org"})),
        ("signup", lambda client, n: client.post("/accounts/signup/", {"username": f"n{n}"})),
    ],
)
def test_every_door_bears_so_many_and_no_more(door, ask, client, db):
    most = doors.DOORS[door].address.most
    assert all(ask(client, number).status_code != 429 for number in range(most))
    refused = ask(client, most)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0


def test_mail_to_one_address_is_sent_so_often_and_no_more(client, db):
    form = {"email": "Ada@example.org"}
    codes = [
        Client(REMOTE_ADDR=f"192.0.2.{n}").post("/accounts/password/reset/", form).status_code
        for n in range(5)
    ]
    assert codes == [302, 302, 302, 302, 429]


@pytest.mark.parametrize(
    ("proxies", "direct", "forwarded", "client"),
    [
        (0, "203.0.113.9", "198.51.100.1", "203.0.113.9"),  # whoever writes the header itself is not believed
        (1, "10.0.0.1", "198.51.100.1", "198.51.100.1"),
        (1, "10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (2, "10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        (2, "10.0.0.1", "198.51.100.1", "10.0.0.1"),
        (1, "10.0.0.1", "", "10.0.0.1"),
        (1, "10.0.0.1", "nonsense", "10.0.0.1"),
        (1, "10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        (1, "10.0.0.1", "[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        (0, "2001:db8:1:2:9:9:9:9", "", "2001:db8:1:2::/64"),
        (0, "::ffff:192.0.2.1", "", "192.0.2.1"),
        (0, "", "", ""),
    ],
)
def test_the_client_is_who_the_operators_own_proxies_say(proxies, direct, forwarded, client, settings):
    settings.TRUSTED_PROXIES = proxies
    assert addresses.client_of(direct, [forwarded]) == client
    scope = {"client": (direct, 1) if direct else None, "headers": [(b"x-forwarded-for", forwarded.encode())]}
    assert addresses.of_scope(scope) == client


def test_limits_are_held_by_the_forwarded_address_behind_a_proxy(person, settings):
    settings.TRUSTED_PROXIES = 1
    most = doors.DOORS["login"].address.most
    crowd = Client(headers={"X-Forwarded-For": "198.51.100.1"})
    for number in range(most):
        sign_in(crowd, f"name{number}", "wrong")
    assert sign_in(crowd).status_code == 429
    assert sign_in(Client(headers={"X-Forwarded-For": "198.51.100.2"})).status_code == 302
    assert crowd.get(LOGIN).status_code == 200
