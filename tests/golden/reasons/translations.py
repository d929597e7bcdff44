"""Requests translated by containerd, CRI-O and Docker, and values that each cannot express, with the reason."""

from collections.abc import Iterator

from memqos.engine.translate.docker import host_config
from memqos.engine.translate.oci import oci_for_create, oci_for_update, unclearable
from memqos.engine.translate.resources import OciResources, OciTranslation
from memqos.engine.translate.versions import traits_of
from memqos.model.cri import ContainerResources
from tests.golden.reasons.pages import laid_out

MIB = 1 << 20
REQUESTS = {
    "nothing": ContainerResources(),
    "everything": ContainerResources(
        cpu_period=100_000,
        cpu_quota=50_000,
        cpu_shares=256,
        memory_limit_in_bytes=256 * MIB,
        memory_swap_limit_in_bytes=300 * MIB,
        oom_score_adj=984,
        cpuset_cpus="0-1",
        cpuset_mems="1",
        hugepage_limits=(("2MB", 4 * MIB), ("1GB", 0)),
        unified={"memory.high": "248303616", "memory.low": "134217728", "memory.oom.group": "1"},
    ),
    "no swap": ContainerResources(memory_limit_in_bytes=64 * MIB, unified={"memory.swap.max": "0"}),
    "swap without a limit": ContainerResources(memory_swap_limit_in_bytes=64 * MIB),
    "unlimited": ContainerResources(cpu_period=100_000, cpu_quota=-1, memory_swap_limit_in_bytes=-1),
    "little": ContainerResources(memory_limit_in_bytes=4 * MIB),
}
FOR_DOCKER = REQUESTS | {
    "protected beyond its limit": ContainerResources(
        memory_limit_in_bytes=64 * MIB, cpu_shares=2, unified={"memory.low": str(128 * MIB), "memory.min": "0"}
    ),
    "entries alone": ContainerResources(
        unified={
            "memory.max": str(64 * MIB),
            "memory.swap.max": "max",
            "cpu.max": "500 1000",
            "cpu.weight": "50",
            "pids.max": "100",
            "io.weight": "10",
        }
    ),
    "hardly any CPU": ContainerResources(cpu_period=500, cpu_quota=100),
}
STORED = OciResources(
    memory_limit=128 * MIB, memory_swap=128 * MIB, memory_reservation=MIB, cpu_shares=512, cpu_quota=-1, cpus="0-3"
)
RUNTIMES = (("containerd", "1.6.8"), ("containerd", "1.7.24"), ("cri-o", "1.30.14"), ("cri-o", "1.36.3"))


def told(title: str, found: OciTranslation) -> str:
    lines = [f"{title}: {laid_out(found.resources.document())}, oom_score_adj {found.oom_score_adj}"]
    lines += [f"  not said: {left.knob} {left.value}: {left.why}" for left in found.unsayable]
    return "\n".join([*lines, f"  refused: {found.refusal}"] if found.refusal else lines)


def oci() -> Iterator[str]:
    for name, version in RUNTIMES:
        cri = traits_of(name, version)
        for title, sent in REQUESTS.items():
            for controller in (True, False):
                where = f"{name} {version}, {title}, {'with' if controller else 'without'} a swap controller"
                yield told(f"{where}, created", oci_for_create(sent, cri, swap_controller=controller))
                yield told(f"{where}, updated", oci_for_update(STORED, sent, cri, swap_controller=controller))
            yield told(f"{name} {version}, {title}, huge pages", oci_for_create(sent, cri, hugetlb=True))


def cleared() -> Iterator[str]:
    for before, after in (("everything", "nothing"), ("everything", "no swap"), ("nothing", "everything")):
        left = unclearable(REQUESTS[before], REQUESTS[after])
        stays = [f"  stays: {one.knob} {one.value!r}: {one.why}" for one in left]
        yield "\n".join([f"from {before} to {after}", *stays])


def docker() -> Iterator[str]:
    for title, sent in FOR_DOCKER.items():
        found = host_config(sent)
        lines = [f"docker, {title}: {laid_out(dict(found.host_config))}"]
        lines += [f"  annotation: {name}: {value}" for name, value in found.annotations.items()]
        lines += [f"  not said: {left.knob} {left.value}: {left.why}" for left in found.unsayable]
        yield "\n".join(lines)


def book() -> Iterator[str]:
    yield from oci()
    yield from cleared()
    yield from docker()
