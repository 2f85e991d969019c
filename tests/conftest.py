"""For every test."""

from hypothesis import HealthCheck, settings

# How fast examples are made is the machine's affair, and no promise of ours.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
