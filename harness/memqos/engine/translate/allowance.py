"""Which annotations of pods a CRI runtime is configured to act on: what crio.conf says of handlers and workloads.

Source: CRI-O pkg/config/config.go (`RuntimeHandler.AllowedAnnotations`) and pkg/config/workloads.go, 1.24 to 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NOTHING_ALLOWED", "Allowance", "Workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload of crio.conf: settings for the pods that have its activation annotation.

    prefix: of the annotation `PREFIX/CONTAINER`, whose JSON overrides resources for one container. allowed: annotations
    that its pods may use besides. shares, quota and period (µs), limit (milli-CPUs): 0 is not said; cpus: "" is not.
    """

    name: str
    activation: str
    prefix: str = ""
    allowed: tuple[str, ...] = ()
    shares: int = 0
    quota: int = 0
    period: int = 0
    limit: int = 0
    cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a runtime handler is configured to allow.

    allowed: names of annotations, which allow every annotation that begins with them; of containerd, patterns with *.
    known: whether the configuration is known; if not, an annotation that is not allowed here may be all the same.
    """

    allowed: tuple[str, ...] = ()
    workloads: tuple[Workload, ...] = ()
    known: bool = True

    def workload(self, annotations: Mapping[str, str]) -> Workload | None:
        """The workload that a pod with these annotations activates; None if it activates none."""
        return next((one for one in self.workloads if one.activation in annotations), None)

    def names(self, annotations: Mapping[str, str]) -> tuple[str, ...]:
        """All names that are allowed to a pod with these annotations."""
        workload = self.workload(annotations)
        return self.allowed if workload is None else (*self.allowed, *workload.allowed)


NOTHING_ALLOWED = Allowance()
