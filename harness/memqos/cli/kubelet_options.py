"""The options about a kubelet, other than its release and configuration; shared by the pages that plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from memqos.catalog.kubelet_config import load_settings
from memqos.engine.kubelet import Kubelet
from memqos.engine.releases.release import Variant
from memqos.engine.translate.versions import Runtimes
from memqos.model.node import CgroupDriver, KubeletSettings, NodeFacts

__all__ = ["KubeletOptions", "kubelet_options"]

_OPTIONS = (
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a field of the configuration, such as featureGates.MemoryQoS=true; may be repeated.",
    ),
    click.option(
        "--kubelet-flags",
        "flags",
        multiple=True,
        metavar="FILE|FLAGS",
        help="The kubelet's command line flags, which override its configuration: a systemd unit or drop-in, a file "
        "with KUBELET_EXTRA_ARGS=…, /proc/PID/cmdline, or the flags themselves; may be repeated.",
    ),
    click.option(
        "--driver",
        type=click.Choice([driver.value for driver in CgroupDriver]),
        help="The cgroup driver. Default: the one that the runtime reports, if the release asks it (CRI-O: systemd), "
        "else the configured one, else cgroupfs.",
    ),
    click.option(
        "--as",
        "variant",
        type=click.Choice([variant.value for variant in Variant]),
        default=Variant.SHIPPED.value,
        show_default=True,
        help="Which rules apply where several exist: the release's own code (shipped), that code with later fixes "
        "(mended: memory QoS in a resize under 1.37), the text of the enhancement proposal (documented), or the Memory "
        "Manager's draft of 2020, which differs only for NUMA nodes (draft).",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """The options about the kubelet; a driver of None is the configured one."""

    overrides: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    driver: str | None = None
    variant: str = Variant.SHIPPED.value

    @property
    def cgroup_driver(self) -> CgroupDriver | None:
        """The given driver, None without one."""
        return CgroupDriver(self.driver) if self.driver else None

    @property
    def followed(self) -> Variant:
        """Which rules apply: the code's or the text's."""
        return Variant(self.variant)

    def settings(self, config: str | Sequence[str] | None) -> KubeletSettings:
        """The configuration in these files and folders (None: an empty one), overridden by flags and --set.

        Errors as `load_settings`.
        """
        return load_settings(config, self.overrides, self.flags)

    def kubelet(
        self,
        settings: KubeletSettings,
        *,
        node: NodeFacts,
        release: str,
        runtimes: Runtimes,
        shown: CgroupDriver | None = None,
    ) -> Kubelet:
        """The kubelet of this release with these settings; UnknownNameError for a release without rules.

        shown: the driver by the names of its cgroups. It overrides any configuration, since the runtime may have
        reported it.
        """
        return Kubelet.of(
            node=node,
            settings=settings,
            release=release,
            driver=self.cgroup_driver or shown,
            variant=self.followed,
            runtimes=runtimes,
        )


def kubelet_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a page the options that make `KubeletOptions`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
