"""The cgroup driver of a kubelet: from its configuration, or as its runtime reports it (KEP-4033).

Source: kubelet `getCgroupDriverFromCRI`, containerd `internal/cri/server/runtime_config_linux.go`, CRI-O
`server/runtime_config.go`, `internal/config/cgmgr`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memqos.engine.releases.gates import enabled
from memqos.engine.releases.release import Release
from memqos.engine.releases.table import Gate
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import RuntimeName, Traits, release_span
from memqos.model.node import CgroupDriver, KubeletSettings

__all__ = ["DriverChoice", "disagreement", "driver_of", "reports_driver"]

_FIELD = "cgroupDriver"
_KUBELET_DEFAULT = CgroupDriver.CGROUPFS
_SAY = "--driver sets it"
_REPORTS_DRIVER: Mapping[RuntimeName, tuple[int, ...]] = {
    RuntimeName.CONTAINERD: (2,),
    RuntimeName.CRIO: (1, 28),
    RuntimeName.CRI_DOCKERD: (0, 3, 4),
}


@dataclass(frozen=True, slots=True)
class DriverChoice:
    """A driver, and a note about an assumption or a conflict; "" for none."""

    driver: CgroupDriver
    assumed: str = ""


def driver_of(
    release: Release, settings: KubeletSettings, runtimes: Runtimes, *, known: CgroupDriver | None = None
) -> DriverChoice:
    """The driver of this kubelet. known: the driver that its cgroups show or the user names.

    Without it: if the release asks the runtime (gate KubeletCgroupDriverFromCRI) and the runtime reports, the
    cgroup_manager of CRI-O's configuration, by default systemd; for containerd and Docker, which report a setting of
    their own, the configured driver. Otherwise the configured driver, else cgroupfs, the kubelet's default.
    """
    configured = settings.cgroup_driver
    if known is not None:
        return DriverChoice(known, _contradicted(release, known, runtimes))
    reports = reports_driver(runtimes.cri)
    asks = enabled(Gate.DRIVER_FROM_CRI, release, settings.feature_gates)
    # /configz shows the kubelet's effective settings, including the driver that the runtime reported.
    if not asks or reports is False or (settings.effective and configured is not None):
        driver = configured or _KUBELET_DEFAULT
        return DriverChoice(driver, _contradicted(release, driver, runtimes))
    if runtimes.cri.runtime is RuntimeName.CRIO:
        driver = CgroupDriver.SYSTEMD if runtimes.crio is None else runtimes.crio.driver
        return DriverChoice(driver, _crio(release, runtimes, configured))
    driver = configured or _KUBELET_DEFAULT
    because = f"{_FIELD} says" if configured else "the defaults of both are"
    may = "reports" if reports else "may report"
    setting = "SystemdCgroup setting" if runtimes.cri.runtime is RuntimeName.CONTAINERD else "own driver"
    return DriverChoice(
        driver,
        f"{driver} is assumed, as {because}: the kubelet of {release} takes the driver that the runtime reports, and "
        f"{runtimes.cri} {may} its {setting}, which is not given here; {_SAY}",
    )


def _crio(release: Release, runtimes: Runtimes, configured: CgroupDriver | None) -> str:
    crio = runtimes.crio
    driver = CgroupDriver.SYSTEMD if crio is None else crio.driver
    ignored = f", and ignores {_FIELD}: {configured}" if configured not in {None, driver} else ""
    if crio is not None and crio.cgroup_manager is not None:
        return (
            f"{driver} is the cgroup_manager of CRI-O's configuration{crio.place}: the kubelet of {release} takes the "
            f"driver that the runtime reports{ignored} (KEP-4033)"
        )
    return (
        f"systemd is assumed: the kubelet of {release} takes the driver that the runtime reports{ignored}; "
        f"{runtimes.cri} reports its cgroup_manager, which is systemd by default; {_SAY}"
    )


def _contradicted(release: Release, driver: CgroupDriver, runtimes: Runtimes) -> str:
    """A note if CRI-O's configured driver differs from the kubelet's; "" if not, or if either is unknown."""
    crio = runtimes.crio
    if crio is None or crio.cgroup_manager in {None, driver}:
        return ""
    return (
        f"the kubelet of {release} has {driver} here, and CRI-O has cgroup_manager {crio.driver}{crio.place}: CRI-O "
        "refuses pods whose parent cgroup is the other driver's"
    )


def disagreement(
    release: Release,
    settings: KubeletSettings,
    runtimes: Runtimes,
    *,
    seen: CgroupDriver | None,
    said: CgroupDriver | None = None,
) -> tuple[str, str]:
    """The setting that contradicts the driver in a node's cgroup names, and the reason; "", "" for none.

    seen: the driver of the cgroup names; None for none or both. said: the driver that the user names.
    """
    if seen is None or seen in {said, None if said else settings.cgroup_driver}:
        return "", ""
    if said is not None:
        return (
            "--driver",
            f"{said} is given, but the cgroups of this node have the names that {seen} gives: leave it out",
        )
    configured = settings.cgroup_driver
    if configured is None:
        return "", ""
    if enabled(Gate.DRIVER_FROM_CRI, release, settings.feature_gates) and reports_driver(runtimes.cri) is not False:
        why = f"the kubelet of {release} takes the driver that its runtime reports, and ignores {_FIELD} (KEP-4033)"
    else:
        why = "the kubelet runs with another configuration, or with --cgroup-driver"
    return _FIELD, f"{configured} is configured, but the cgroups of this node have the names that {seen} gives: {why}"


def reports_driver(cri: Traits) -> bool | None:
    """Whether a CRI runtime reports its cgroup driver to the kubelet (CRI `RuntimeConfig`); None if unknown.

    Source: KEP-4033; containerd from 2.0, CRI-O from 1.28, cri-dockerd from 0.3.4, whose version Docker does not
    report.
    """
    first = _REPORTS_DRIVER.get(cri.runtime)
    if first is None:
        return None if cri.runtime in {RuntimeName.DOCKER, RuntimeName.OTHER_CRI} else False
    oldest, newest = release_span(cri.runtime, cri.version)
    if oldest < first <= newest:
        return None
    return first <= oldest
