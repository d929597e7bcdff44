"""Any pods, releases and configurations, for properties that hold for all of them."""

from fractions import Fraction

from hypothesis import strategies as st

from memqos.engine.releases.release import Variant
from memqos.model.node import ReservationPolicy
from memqos.testing.strategies import PodShape, pods_together, releases, throttling_factors

# These properties are about pods without pod-level resources and huge pages.
PODS = pods_together(1, 3, PodShape(pod_level=False, huge_pages=False, fractions=False))
RELEASES = releases()
FACTORS = throttling_factors().map(Fraction)
POLICIES = st.sampled_from([None, *ReservationPolicy])
VARIANTS = st.sampled_from(Variant)
