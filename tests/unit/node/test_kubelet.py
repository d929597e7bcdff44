"""Verbs about a real kubelet, on an in-memory node: each conforms on a right kubelet, and finds a wrong one."""

import dataclasses
import datetime
import json
import threading

import pytest

from memqos.enactor.base import MemoryVolume
from memqos.engine.answer.finding import Setter, Verdict
from memqos.errors import EnactorNotAbleError
from memqos.model.node import ReservationPolicy
from memqos.model.pod import Resources
from memqos.model.quantity import Quantity
from memqos.node.kubelet import KubeletVerbs
from tests.unit.node.fakes import Bench, kubelet, pod

WEB = pod("web")
TIERED = {"memory_reservation_policy": ReservationPolicy.TIERED}
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice"


class Session:
    """A kubelet's answers. memory, swap: reported for the container `app`; state: in its status.

    pressure: the totals of the pod's CPU pressure, in the summary and in seconds; None for a kubelet without.
    moments: when it read them, in seconds of the epoch, one fetch of the summary after another.
    """

    def __init__(
        self,
        population,
        *,
        memory=0,
        swap=0,
        swap_metric=None,
        state="running",
        other_id="",
        pressure=None,
        moments=(18,),
    ):
        self.population, self.memory, self.swap, self.state, self.other_id = population, memory, swap, state, other_id
        self.swap_metric = str(swap) if swap_metric is None else swap_metric
        self.pressure = pressure
        self.moments = list(moments)
        self.has_cgroup = True
        self.fetches = 0

    def objects(self, version, resource):
        assert (version, resource) == ("v1", "pods")
        admitted = self.population.pods[WEB.uid]
        made = self.other_id or admitted.containers["app"].id
        status = {"name": "app", "containerID": f"containerd://{made}", "state": {self.state: {}}}
        return [{"metadata": {"uid": WEB.uid}, "status": {"phase": "Running", "containerStatuses": [status]}}]

    def fetched(self, url, *, seconds):
        assert seconds > 0
        self.fetches += 1
        if url.endswith("/stats/summary"):
            self.moment = self.moments.pop(0) if self.moments[1:] else self.moments[0]
            container = {
                "name": "app",
                "memory": {"workingSetBytes": self.memory},
                "swap": {"swapUsageBytes": self.swap},
            }
            psi = self.pressure and {"some": {"total": self.pressure[0]}, "full": {"total": self.pressure[0]}}
            time = datetime.datetime.fromtimestamp(self.moment, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            pod = {"podRef": {"uid": WEB.uid}, "containers": [container], "cpu": {"time": time, "psi": psi}}
            return json.dumps({"pods": [pod]})
        if url.endswith("/metrics/cadvisor"):
            path = self.population.plan.pods[0].cgroup.path
            rows = [f'container_cpu_usage_seconds_total{{container="",id="{path}"}} 1 {self.moment * 1000 + 700}\n']
            rows += [
                f'container_pressure_cpu_{word}_seconds_total{{container="",id="{path}"}} {self.pressure[1]}'
                f" {self.moment * 1000 + 700}\n"
                for word in ("waiting", "stalled")
                if self.pressure
            ]
            return "".join(rows) if self.has_cgroup else ""
        labels = f'{{container="app",namespace="default",pod="{WEB.name}"}}'
        return (
            f"# HELP container_memory_working_set_bytes [STABLE] Current working set\n"
            f"container_memory_working_set_bytes{labels} {float(self.memory)!r} 1700000000000\n"
            + (f"container_swap_usage_bytes{labels} {self.swap_metric}\n" if self.swap_metric else "")
        )


@pytest.fixture
def bench():
    return Bench()


def on(bench, population, **told):
    return KubeletVerbs(
        answers=Session(population, **told),
        tree=bench.node.tree,
        population=population,
        sampler=bench.sampler,
        repair_seconds=0.5,
    )


def reporting(bench, population, *, seconds=0.0, **told):
    bench.target.on(("date", "+%s"), lambda *_: (0, b"17\n", b""))
    bench.target.on(("sh", "-c", 'echo "$1" > "$2" || true'), lambda *_: (0, b"", b""))
    return dataclasses.replace(on(bench, population, **told).reports, seconds=seconds)


def verdicts(findings):
    return {str(one.subject): one.verdict for one in findings}


def put_back(bench, text):
    """A kubelet that repairs while the verb waits."""
    [path] = [one for one in bench.cgroups.snapshot() if str(one) == BURSTABLE]
    timer = threading.Timer(0.1, lambda: bench.cgroups.put(path, "memory.low", text))
    timer.start()
    return timer


def test_a_class_that_the_kubelet_restores_conforms_and_one_that_it_leaves_deviates(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        timer = put_back(bench, "33554432")
        assert verdicts(on(bench, population).repairs_classes()) == {"kubepods-burstable.slice": Verdict.CONFORMS}
        timer.join()
        [left] = on(bench, population).repairs_classes()
        assert (left.verdict, left.expected, left.observed) == (Verdict.DEVIATES, "33554432", "1048576")
        assert left.set_by is Setter.KUBELET


def test_a_pod_s_foreign_value_must_stay(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        timer = put_back(bench, "33554432")
        found = verdicts(on(bench, population).never_repairs_pods())
        timer.join()
        assert found == {"kubepods-burstable.slice": Verdict.CONFORMS, "pod default/web": Verdict.CONFORMS}


def test_a_pod_s_foreign_value_that_is_overwritten_deviates(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        path = population.plan.pods[0].cgroup.path
        timer = threading.Timer(0.1, lambda: bench.cgroups.put(path, "memory.low", "33554432"))
        timer.start()
        found = verdicts(on(bench, population).never_repairs_pods())
        timer.join()
        assert found["pod default/web"] is Verdict.DEVIATES


@pytest.mark.parametrize("verb", ["repairs_classes", "never_repairs_pods"])
def test_foreign_values_are_gone_afterwards(bench, verb):
    """Even of a kubelet that repairs nothing: the next test has the same pods."""
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        before = bench.cgroups.snapshot()
        getattr(on(bench, population), verb)()
        assert bench.cgroups.snapshot() == before


@pytest.mark.parametrize("verb", ["repairs_classes", "never_repairs_pods"])
def test_a_configuration_without_protection_cannot_show_repairs(bench, verb):
    none = kubelet("1.36", memory_reservation_policy=ReservationPolicy.NONE)
    with bench.node.admitted([WEB], none) as population:
        before = bench.cgroups.snapshot()
        with pytest.raises(EnactorNotAbleError, match="protects no QoS class"):
            getattr(on(bench, population), verb)()
        assert bench.cgroups.snapshot() == before


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({}, Verdict.CONFORMS),
        ({"state": "terminated"}, Verdict.DEVIATES),
        ({"other_id": "another"}, Verdict.DEVIATES),
    ],
)
def test_containers_run_on_if_the_kubelet_reports_the_same_ones_running(bench, told, verdict):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        assert [one.verdict for one in on(bench, population, **told).still_runs()] == [verdict]


SOURCES = ("/stats/summary", "/metrics/resource")


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"memory": 60 << 20, "swap": 4 << 20}, {}),
        # Within what two CPUs charge ahead, 64 pages each.
        ({"memory": (60 << 20) + (512 << 10), "swap": 4 << 20}, {}),
        # memory.current as a whole, and a swap amount in KiB.
        (
            {"memory": 64 << 20, "swap": 4 << 10},
            {f"workingSetBytes in {one}": str(64 << 20) for one in SOURCES}
            | {f"swapUsageBytes in {one}": str(4 << 10) for one in SOURCES},
        ),
        # As /metrics/resource of 1.34 has it (kubernetes issue 137093), and as that of 1.32.13: not at all.
        (
            {"memory": 60 << 20, "swap": 4 << 20, "swap_metric": "0"},
            {"swapUsageBytes in /metrics/resource": "0"},
        ),
        (
            {"memory": 60 << 20, "swap": 4 << 20, "swap_metric": ""},
            {"swapUsageBytes in /metrics/resource": "nothing"},
        ),
    ],
)
def test_reported_memory_is_compared_with_the_kernels(bench, told, wrong):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        in_use(bench, population)
        found = reporting(bench, population, **told).memory()
    assert {one.knob: one.observed for one in found if one.verdict is Verdict.DEVIATES} == wrong
    assert {one.knob for one in found} == {
        f"{field} in {source}" for field in ("workingSetBytes", "swapUsageBytes") for source in SOURCES
    }


def test_a_kubelet_that_reports_swap_nowhere_is_of_a_release_before_it_does(bench):
    with bench.node.admitted([WEB], kubelet("1.27", **TIERED)) as population:
        in_use(bench, population)
        found = reporting(bench, population, memory=60 << 20, swap=None, swap_metric="").memory()
    assert {one.knob.partition(" ")[0]: one.verdict for one in found} == {
        "workingSetBytes": Verdict.CONFORMS,
        "swapUsageBytes": Verdict.NOT_OBSERVABLE,
    }


def in_use(bench, population, memory=64 << 20, swap=4 << 20):
    path = population.path_of(WEB, "app")
    bench.cgroups.show(path, "memory.current", str(memory))
    bench.cgroups.show(path, "memory.stat", f"anon 1\ninactive_file {min(memory, 4 << 20)}\n")
    bench.cgroups.show(path, "memory.swap.current", str(swap))


@pytest.mark.parametrize(("memory", "swap"), [(512 << 10, 4 << 20), (64 << 20, 512 << 10)])
def test_amounts_within_the_tolerance_prove_nothing(bench, memory, swap):
    """A kubelet that reports zero for each would seem right."""
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        in_use(bench, population, memory, swap)
        with pytest.raises(EnactorNotAbleError, match="to tell a report from none"):
            reporting(bench, population).memory()
        bench.cgroups.remove(population.path_of(WEB, "app"))
        with pytest.raises(EnactorNotAbleError, match=r"a container has ended: /kubepods.*has no memory"):
            reporting(bench, population).memory()


def test_without_a_kubelet_the_verbs_are_not_observable(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        assert "--kubelet-binary PATH" in bench.node.why_not("kubelet")
        with pytest.raises(EnactorNotAbleError, match="give --kubelet-binary PATH"):
            bench.node.kubelet_verbs(population)


PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.08 total=490096\nfull avg10=0.00 avg60=0.01 avg300=0.05 total=490096\n"


@pytest.mark.parametrize(
    ("told", "summary", "metrics"),
    [
        ((490096000, 0.490096), Verdict.CONFORMS, Verdict.CONFORMS),
        # As 1.36.2 over containerd reports it: microseconds under the name of nanoseconds.
        ((490096, 0.490096), Verdict.DEVIATES, Verdict.CONFORMS),
        ((490096000, 490.096), Verdict.CONFORMS, Verdict.DEVIATES),
        ((490096000, 0.000490096), Verdict.CONFORMS, Verdict.DEVIATES),
    ],
)
def test_pressure_must_be_the_kernel_s_in_the_unit_of_each_endpoint(bench, told, summary, metrics):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "cpu.pressure", PRESSURE)
        found = {one.knob: one.verdict for one in reporting(bench, population, pressure=told).pressure()}
    assert found == {
        f"cpu.pressure {line} in {source}": verdict
        for source, verdict in (("/stats/summary", summary), ("/metrics/cadvisor", metrics))
        for line in ("some", "full")
    }


def test_one_look_reads_each_endpoint_once_for_all_values(bench):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "cpu.pressure", PRESSURE)
        verbs = reporting(bench, population, pressure=(490096000, 0.490096))
        verbs.pressure()
        assert verbs.answers.fetches == 2


@pytest.mark.parametrize(
    ("told", "moments", "fetches", "verdict"),
    [
        # From before the kernel was read, and the same total: nothing has stalled since.
        ((490096000, 0.490096), (17, 18), 2, Verdict.CONFORMS),
        ((490095000, 0.490095), (17, 18), 4, Verdict.DEVIATES),
        ((490097000, 0.490097), (17, 18), 4, Verdict.DEVIATES),
        ((490096, 490096), (18,), 2, Verdict.DEVIATES),
    ],
)
def test_a_report_from_after_the_reading_decides_and_an_earlier_one_does_not(bench, told, moments, fetches, verdict):
    """However long a kubelet may take: a wrong one is not waited for."""
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "cpu.pressure", PRESSURE)
        verbs = reporting(bench, population, seconds=60.0, pressure=told, moments=moments)
        assert {one.verdict for one in verbs.pressure()} == {verdict}
    assert verbs.answers.fetches == fetches


@pytest.mark.parametrize(
    ("at_first", "moments", "has_cgroup"),
    [
        (None, (17, 18), True),
        ((490095000, 0.490095), (17, 18), True),
        # The pod's CPU time is the sum of its containers', without pressure (kubelet addPodCPUMemoryStats).
        (None, (18, 19), False),
    ],
)
def test_what_the_kubelet_has_not_measured_yet_is_waited_for(bench, at_first, moments, has_cgroup):
    """A kubelet that has just made the pod has no total, which does not show that it reports none, or an old one."""
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "cpu.pressure", PRESSURE)
        verbs = reporting(bench, population, seconds=60.0, pressure=at_first, moments=moments)
        verbs.answers.has_cgroup = has_cgroup
        fetched = verbs.answers.fetched

        def measured_later(url, *, seconds):
            if verbs.answers.fetches == 2:
                verbs.answers.pressure, verbs.answers.has_cgroup = (490096000, 0.490096), True
            return fetched(url, seconds=seconds)

        verbs.answers.fetched = measured_later
        assert {one.verdict for one in verbs.pressure()} == {Verdict.CONFORMS}


@pytest.mark.parametrize(("text", "why"), [(PRESSURE, "reports no pressure"), ("", "no pod waited for a CPU")])
def test_without_pressure_nothing_is_compared(bench, text, why):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "cpu.pressure", text)
        verbs = reporting(bench, population, seconds=60.0)
        with pytest.raises(EnactorNotAbleError, match=why):
            verbs.pressure()
        assert verbs.answers.fetches <= 2


UNLIMITED, SMALL = (
    MemoryVolume(name="unlimited", container_path="/a"),
    MemoryVolume(name="small", container_path="/b", size_limit="8388607"),
)


def mounts(sizes):
    """The mount table: sizes in KiB by volume of the pod."""
    rows = [
        f"tmpfs /var/lib/kubelet/pods/{WEB.uid}/volumes/kubernetes.io~empty-dir/{name} tmpfs rw,size={size}k,noswap 0 0"
        for name, size in sizes.items()
    ]
    return "\n".join(["proc /proc proc rw 0 0", "tmpfs /run/x tmpfs rw 0 0", *rows, ""]).encode()


@pytest.mark.parametrize(
    ("sizes", "wrong"),
    [
        # The pod's limit of 64Mi, and a sizeLimit that is rounded up to whole pages.
        ({"unlimited": 65536, "small": 8192}, []),
        # The node's allocatable memory, as before the gate SizeMemoryBackedVolumes; the pod's limit past a sizeLimit.
        ({"unlimited": 3145728, "small": 8192}, ["unlimited"]),
        ({"unlimited": 65536, "small": 65536}, ["small"]),
        ({"small": 8192}, ["unlimited"]),
    ],
)
def test_the_size_of_a_volume_is_the_least_of_its_limits(bench, sizes, wrong):
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.target.put("/proc/self/mounts", mounts(sizes))
        found = on(bench, population).volume_sizes([UNLIMITED, SMALL])
    assert [one.knob for one in found if one.verdict is Verdict.DEVIATES] == [f"size of volume {one}" for one in wrong]
    assert [one.expected for one in found] == ["67108864", "8388608"]


def test_a_volume_of_a_pod_without_limit_has_what_pods_may_use(bench):
    """3 GiB without the reservations (none here) and the default threshold of 100 MiB."""
    free = dataclasses.replace(WEB, containers=(dataclasses.replace(WEB.containers[0], resources=Resources()),))
    with bench.node.admitted([free], kubelet("1.36", **TIERED)) as population:
        bench.target.put("/proc/self/mounts", mounts({"unlimited": 1}))
        [found] = on(bench, population).volume_sizes([UNLIMITED])
    assert int(found.expected) == bench.facts.node.memory - (100 << 20)


@pytest.mark.parametrize(("size", "verdict"), [(65536, Verdict.CONFORMS), (98304, Verdict.DEVIATES)])
def test_a_volume_keeps_the_size_of_the_limit_before_a_resize(bench, size, verdict):
    """64Mi before; a kubelet that mounts it again with 96Mi is found."""
    larger = dataclasses.replace(WEB, containers=pod("web", "64Mi", "96Mi").containers)
    with bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population:
        bench.node.resize(population, WEB, kubelet("1.36", **TIERED), to=larger)
        bench.target.put("/proc/self/mounts", mounts({"unlimited": size}))
        [found] = on(bench, population).volume_sizes([UNLIMITED], when="after the resize")
    assert (found.verdict, found.expected, found.observed) == (verdict, "67108864", str(size << 10))
    assert str(found.subject) == "pod default/web, after the resize"


@pytest.mark.parametrize(
    ("pod_shmem", "app_shmem", "wrong"),
    [
        (24 << 20, 0, []),
        ((24 << 20) + (512 << 10), 512 << 10, []),
        # A kernel that charges the next container, and pages that vanished with the cgroup.
        (24 << 20, 24 << 20, ["container app"]),
        (0, 0, ["pod default/web"]),
    ],
)
def test_pages_of_a_volume_are_the_pod_s(bench, pod_shmem, app_shmem, wrong):
    init = dataclasses.replace(pod("web", init=True).init_containers[0], args=("tmpfs", "/volume/data", "24Mi"))
    web = dataclasses.replace(WEB, init_containers=(init,))
    with bench.node.admitted([web], kubelet("1.36", **TIERED)) as population:
        bench.cgroups.show(population.plan.pods[0].cgroup.path, "memory.stat", f"anon 5\nshmem {pod_shmem}\n")
        bench.cgroups.show(population.path_of(WEB, "app"), "memory.stat", f"anon 5\nshmem {app_shmem}\n")
        found = on(bench, population).volume_pages()
    assert len(found) == 2
    assert [str(one.subject).partition(" of ")[0] for one in found if one.verdict is Verdict.DEVIATES] == wrong


STATIC = {
    "memory_manager_policy": "Static",
    "topology_manager_policy": "single-numa-node",
    "system_reserved": {"memory": Quantity.parse("100Mi"), "cpu": Quantity.parse("100m")},
    "reserved_memory": ((0, {"memory": Quantity.parse("100Mi")}), (1, {"memory": Quantity.parse("100Mi")})),
}


@pytest.mark.parametrize(
    ("block", "observed", "verdict"),
    [
        ({"numaAffinity": [0], "type": "memory", "size": 64 << 20}, "0: 67108864 bytes", Verdict.CONFORMS),
        ({"numaAffinity": [1], "type": "memory", "size": 64 << 20}, "1: 67108864 bytes", Verdict.DEVIATES),
        ({"numaAffinity": [0, 1], "type": "memory", "size": 64 << 20}, "0,1: 67108864 bytes", Verdict.DEVIATES),
        ({"numaAffinity": [0], "type": "memory", "size": 1}, "0: 1 bytes", Verdict.DEVIATES),
        (None, "nothing", Verdict.DEVIATES),
    ],
)
def test_the_memory_manager_s_checkpoint_has_the_planned_numa_node(bench, block, observed, verdict):
    amounts = {"memory": Quantity.parse("64Mi"), "cpu": Quantity.parse("1")}
    container = dataclasses.replace(WEB.containers[0], resources=Resources(requests=amounts, limits=amounts))
    web = dataclasses.replace(WEB, containers=(container,))
    with bench.node.admitted([web], kubelet("1.36", **STATIC)) as population:
        entries = {} if block is None else {WEB.uid: {"app": [{"type": "hugepages-2Mi", "size": 0}, block]}}
        bench.target.put("/var/lib/kubelet/memory_manager_state", json.dumps({"entries": entries}).encode())
        found, mems = on(bench, population).memory_manager_places()
    assert (found.observed, found.expected, found.verdict) == (observed, "0: 67108864 bytes", verdict)
    assert (mems.knob, mems.expected, mems.verdict) == ("cpuset.mems", "0", Verdict.CONFORMS)


def test_a_container_on_another_numa_node_than_its_checkpoint_says_is_found(bench):
    amounts = {"memory": Quantity.parse("64Mi"), "cpu": Quantity.parse("1")}
    container = dataclasses.replace(WEB.containers[0], resources=Resources(requests=amounts, limits=amounts))
    web = dataclasses.replace(WEB, containers=(container,))
    with bench.node.admitted([web], kubelet("1.36", **STATIC)) as population:
        block = {"numaAffinity": [0], "type": "memory", "size": 64 << 20}
        bench.target.put(
            "/var/lib/kubelet/memory_manager_state", json.dumps({"entries": {WEB.uid: {"app": [block]}}}).encode()
        )
        bench.cgroups.put(population.path_of(web, "app"), "cpuset.mems", "1")
        read = dataclasses.replace(population, reading=bench.node.read(population))
        found, mems = on(bench, read).memory_manager_places()
    assert (found.verdict, mems.verdict, mems.observed) == (Verdict.CONFORMS, Verdict.DEVIATES, "1")


@pytest.mark.parametrize(("has_entry", "verdict"), [(False, Verdict.CONFORMS), (True, Verdict.DEVIATES)])
def test_an_init_container_that_has_ended_has_no_entry_in_the_checkpoint(bench, has_entry, verdict):
    """Seen with 1.36.2; a kubelet that keeps the entry counts its memory twice."""
    amounts = {"memory": Quantity.parse("64Mi"), "cpu": Quantity.parse("1")}
    full = Resources(requests=amounts, limits=amounts)
    web = pod("web", init=True)
    web = dataclasses.replace(
        web,
        containers=(dataclasses.replace(web.containers[0], resources=full),),
        init_containers=(dataclasses.replace(web.init_containers[0], resources=full),),
    )
    block = [{"numaAffinity": [0], "type": "memory", "size": 64 << 20}]
    with bench.node.admitted([web], kubelet("1.36", **STATIC)) as population:
        entries = {WEB.uid: {"app": block, **({"init": block} if has_entry else {})}}
        bench.target.put("/var/lib/kubelet/memory_manager_state", json.dumps({"entries": entries}).encode())
        places = on(bench, population).memory_manager_places()
    found = {one.subject.container: one for one in places if one.knob == "memory_manager_state"}
    assert [one.subject.container for one in places if one.knob == "cpuset.mems"] == ["app"]
    assert (found["init"].verdict, found["init"].expected) == (verdict, "nothing")
    assert found["app"].verdict is Verdict.CONFORMS


def test_without_the_policy_static_there_is_no_checkpoint_to_look_at(bench):
    with (
        bench.node.admitted([WEB], kubelet("1.36", **TIERED)) as population,
        pytest.raises(EnactorNotAbleError, match="no container gets NUMA nodes"),
    ):
        on(bench, population).memory_manager_places()


def test_only_a_kubelet_makes_memory_backed_volumes(bench):
    with pytest.raises(EnactorNotAbleError, match="--kubelet-binary PATH"):
        bench.node.admitted([WEB], kubelet("1.36", **TIERED), memory_volumes=[UNLIMITED])


def test_without_a_second_kubelet_an_upgrade_is_not_observable(bench):
    with pytest.raises(EnactorNotAbleError, match="give --kubelet-binary PATH"):
        bench.node.upgraded(kubelet("1.36", **TIERED))
