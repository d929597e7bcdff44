"""Versions of runtimes, and a typical linux.resources."""

from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.versions import traits_of
from memqos.model.node import CgroupDriver

MIB = 1 << 20
GIB = 1 << 30
RUNC = traits_of("runc", "1.1.15")
RUNC_1_1_5 = traits_of("runc", "1.1.5")
RUNC_1_2 = traits_of("runc", "1.2.0")
RUNC_1_3_6 = traits_of("runc", "1.3.6")
RUNC_1_6 = traits_of("runc", "1.6.0")
CRUN_1_8_1 = traits_of("crun", "1.8.1")
CRUN_1_21 = traits_of("crun", "1.21")
CRUN_1_28 = traits_of("crun", "1.28")
CGROUPFS = RuntimeHost(driver=CgroupDriver.CGROUPFS)
TYPICAL = OciResources(
    memory_limit=256 * MIB,
    memory_swap=256 * MIB,
    cpu_shares=1024,
    cpu_quota=33_300,
    cpu_period=100_000,
    cpus="0-1",
    mems="0",
    hugepage_limits=(("2MB", 4 * MIB),),
    unified={"memory.oom.group": "1", "memory.min": "134217728", "memory.high": "248303616"},
)
