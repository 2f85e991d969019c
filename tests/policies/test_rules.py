"""What a person may use, of what their groups say."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from chatsite.policies import rules
from chatsite.policies.models import GroupBudget, GroupPolicy, UserPolicy
from chatsite.policies.rules import Policy, policy_of
from chatsite.policies.values import NO_POLICY, Limits, union


@pytest.fixture
def person(db) -> User:
    return User.objects.create_user("ada")


def group_with(name: str, *members: User, **fields: object) -> GroupPolicy:
    group = Group.objects.create(name=name)
    group.user_set.add(*members)
    return GroupPolicy.objects.create(group=group, **fields)


def test_nobody_is_limited_where_there_is_no_policy(person, django_assert_num_queries):
    assert policy_of(person) == NO_POLICY
    with django_assert_num_queries(0):
        assert policy_of(User.objects.model(pk=77)) == NO_POLICY


def test_who_is_in_several_groups_has_the_models_of_all_and_the_largest_limits(person):
    group_with("small", person, allowed_models=["little-*"], requests_per_day=10, tokens_per_day=500)
    group_with("large", person, allowed_models=["huge"], requests_per_day=100)
    policy = policy_of(person)
    assert policy.models == {"little-*", "huge"}
    assert [policy.may_use(model) for model in ("little-one", "huge", "huge-2", "lit")] == [
        True,
        True,
        False,
        False,
    ]
    assert policy.limits == Limits(requests_per_day=100)  # the second has no limit of tokens


def test_a_group_without_models_opens_all(person):
    group_with("small", person, allowed_models=["little"])
    group_with("free", person)
    assert policy_of(person).models is None


def test_a_group_without_a_policy_says_nothing(person):
    Group.objects.create(name="just a list").user_set.add(person)
    group_with("small", person, allowed_models=["little"])
    assert policy_of(person).models == {"little"}


def test_everybody_else_is_who_is_in_no_group_with_a_policy(person):
    GroupPolicy.objects.create(allowed_models=["demo"])
    assert policy_of(person).models == policy_of(None).models == {"demo"}
    group_with("large", person, allowed_models=["huge"])
    assert policy_of(person).models == {"huge"}


def test_there_is_one_policy_for_everybody_else(db):
    GroupPolicy.objects.create()
    with pytest.raises(IntegrityError), transaction.atomic():
        GroupPolicy.objects.create()


def test_a_superuser_has_every_model_and_the_limits(db):
    root = User.objects.create_superuser("root")
    GroupPolicy.objects.create(allowed_models=["demo"], tools={"*": "ask"}, runs_at_once=2)
    policy = policy_of(root)
    assert (policy.models, policy.rule_of("any"), policy.limits.runs_at_once) == (None, "ask", 2)


def test_limits_of_a_person_stand_before_those_of_their_groups(person):
    group_with("small", person, requests_per_day=10, tokens_per_day=500)
    mine = UserPolicy.objects.create(user=person, requests_per_day=3)
    assert policy_of(person).limits == Limits(requests_per_day=3, tokens_per_day=500)
    mine.exempt = True
    mine.save()
    assert not policy_of(person).has_limits


def test_of_many_people_with_limits_of_their_own_only_the_one_is_read(person, django_assert_num_queries):
    for number in range(5):
        other = User.objects.create_user(f"other {number}")
        UserPolicy.objects.create(user=other, requests_per_day=number + 1)
    UserPolicy.objects.create(user=person, requests_per_day=9)
    with django_assert_num_queries(4) as asked:
        assert policy_of(person).limits == Limits(requests_per_day=9)
    of_people = [
        each["sql"] for each in asked.captured_queries if 'FROM "policies_userpolicy"' in each["sql"]
    ]
    assert all(sql.rstrip().endswith("LIMIT 1") for sql in of_people)


def test_a_budget_of_a_whole_group_goes_along(person):
    policy = group_with("team", person)
    GroupBudget.objects.create(policy=policy, cost_per_month=Decimal(40))
    (budget,) = policy_of(person).budgets
    assert (budget.group, budget.limits.cost_per_month) == ("team", Decimal(40))
    UserPolicy.objects.create(user=person, exempt=True)
    assert policy_of(person).budgets == ()


@pytest.mark.parametrize(
    ("tables", "tool", "rule", "by_name"),
    [
        ([{"mail": "ask"}, {}], "mail", "ask", False),
        ([{"mail": "deny"}, {"mail": "allow"}], "mail", "allow", True),
        ([{"mail": "deny"}, {"mail": "ask"}], "mail", "ask", False),
        ([{"*": "deny"}, {"mail": "ask"}], "mail", "ask", False),
        ([{"*": "deny"}, {"mail": "ask"}], "other", "deny", False),
        ([{"*": "allow"}, {"mail": "ask"}], "mail", "allow", False),
        ([{"*": "ask", "mail": "allow"}, {"mail": "deny"}], "mail", "allow", True),
        ([{"*": "ask"}, {"*": "deny", "mail": "deny"}], "mail", "ask", False),
        ([{}, {}], "mail", None, False),
    ],
)
def test_of_several_groups_the_most_generous_rule_of_a_tool_holds(tables, tool, rule, by_name):
    policy = union(Policy(tools=table) for table in tables)
    assert (policy.rule_of(tool), policy.is_allowed_by_name(tool)) == (rule, by_name)


@pytest.mark.parametrize("change", ["policy", "budget", "person", "membership", "superuser", "deleted"])
def test_a_change_is_heard_at_once(person, change):
    policy = group_with("team", person, allowed_models=["little"], requests_per_day=5)
    before = policy_of(person)
    match change:
        case "policy":
            policy.allowed_models = []
            policy.save()
        case "budget":
            GroupBudget.objects.create(policy=policy, tokens_per_day=9)
        case "person":
            UserPolicy.objects.create(user=person, exempt=True)
        case "membership":
            person.groups.clear()
        case "superuser":
            person.is_superuser = True
            person.save()
        case "deleted":
            policy.group.delete()
    assert policy_of(person) != before


def test_what_another_process_changed_is_heard_within_five_seconds(person, monkeypatch):
    policy = group_with("team", person, allowed_models=["little"])
    assert policy_of(person).models == {"little"}
    GroupPolicy.objects.filter(pk=policy.pk).update(allowed_models=["huge"])  # tells nobody here
    assert policy_of(person).models == {"little"}
    now = rules.time.monotonic()
    monkeypatch.setattr(rules.time, "monotonic", lambda: now + 4.9)
    assert policy_of(person).models == {"huge"}
