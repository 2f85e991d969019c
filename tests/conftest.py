"""Of all tests: a law is looked for as long as it takes, however busy the machine is; and what a process remembers of
policies ends with the test's database."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def no_policy_of_another_test():
    yield
    from chatsite.policies import rules

    rules.forget()
