"""How every property test runs: however long an example takes, since a busy host must not turn a test red."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", parent=settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
