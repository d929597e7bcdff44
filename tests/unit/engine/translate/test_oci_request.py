"""Direct requests to an OCI runtime: the input of `update`, the expected files, and their rules."""

from dataclasses import replace

import pytest

from memqos.engine.plan import Input
from memqos.engine.translate.requested import OciRequest, UpdateInput, oom_score_adj_of, requested, requested_again
from memqos.engine.translate.requested_files import requested_cgroup, scope_cgroup
from memqos.engine.translate.resources import OciResources, RuntimeHost
from memqos.engine.translate.runtimes import BUNDLES, Runtimes
from memqos.engine.translate.versions import OCI_RUNTIMES, traits_of, traits_of_program
from memqos.model.cri import ContainerResources
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.path import CgroupPath

MI = 1 << 20
POD = CgroupPath.parse("/pod.slice")
RUNC = Runtimes(cri=BUNDLES, oci=traits_of("runc", "1.3.6"))
CRUN = Runtimes(cri=BUNDLES, oci=traits_of("crun", "1.28"))
RUNSC = Runtimes(cri=BUNDLES, oci=traits_of("runsc", "20260817.0"))
KNOBS = (Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_MAX, Knob.MEMORY_SWAP_MAX, Knob.CPUSET_MEMS)
FIRST = OciRequest(
    resources=OciResources(
        memory_limit=64 * MI,
        memory_swap=80 * MI,
        memory_reservation=16 * MI,
        mems="0",
        unified={"memory.high": "50331648"},
    )
)
UNIT_HIGH = OciRequest(annotations={"org.systemd.property.MemoryHigh": "uint64 50331648", "some.other/key": "text"})


def cgroup(container, knobs=KNOBS):
    return requested_cgroup(container, knobs, name="a", parent=POD).knobs


def shown(container, knobs=KNOBS):
    return {knob.value: one.shown for knob, one in cgroup(container, knobs).items()}


def scope(container):
    return {knob.value: one.shown for knob, one in scope_cgroup(container, name="a", parent=POD).knobs.items()}


@pytest.mark.parametrize(
    ("update_input", "options"),
    [
        (UpdateInput.DOCUMENT, ("--resources", "-")),
        (UpdateInput.FILE, ("--resources", "/run/it.json")),
        (UpdateInput.OPTIONS, ("--memory=67108864", "--memory-swap=-1", "--cpuset-mems=0-1")),
    ],
)
def test_the_input_of_update(update_input, options):
    asked = OciResources(memory_limit=64 * MI, memory_swap=-1, mems="0-1")
    assert OciRequest(resources=asked, update_input=update_input).update_options("/run/it.json") == options


def test_annotations_request_properties_of_the_unit():
    assert UNIT_HIGH.unit_properties == {"MemoryHigh": 50331648}


@pytest.mark.parametrize("text", ["50331648", "uint64 48M", "uint64", "[uint64 1]", "uint64 -1"])
def test_an_annotation_that_is_no_number_is_refused(text):
    request = OciRequest(annotations={"org.systemd.property.MemoryHigh": text})
    with pytest.raises(ValueError, match=r"org\.systemd\.property\.MemoryHigh is not a number"):
        assert request.unit_properties


def test_a_bundle_without_an_oom_score():
    assert oom_score_adj_of(FIRST) == 0


@pytest.mark.parametrize(
    ("runtimes", "swap"),
    [(RUNC, "8388608"), (CRUN, "16777216")],
    ids=["runc sets the limit of both as it was", "crun has a file for each"],
)
def test_a_partial_update_keeps_other_values(runtimes, swap):
    part = OciRequest(resources=OciResources(memory_limit=72 * MI))
    assert shown(requested_again(requested(FIRST, runtimes, RuntimeHost()), part)) == {
        "memory.low": "16777216",
        "memory.high": "50331648",
        "memory.max": "75497472",
        "memory.swap.max": swap,
        "cpuset.mems": "0",
    }


def test_the_reason_names_the_field_of_the_last_request():
    part = OciRequest(resources=OciResources(memory_limit=72 * MI))
    knobs = cgroup(requested_again(requested(FIRST, RUNC, RuntimeHost()), part))
    told = {knob.value: (one.reason.rule, one.reason.inputs) for knob, one in knobs.items()}
    stays = "as the creation requests and no later update names it"
    assert told == {
        "memory.low": (f"memory.low is {stays}", (Input("memory_reservation", "16777216", "OCI request 1"),)),
        "memory.high": (
            f"memory.high is {stays}",
            (Input('unified["memory.high"]', "50331648", "OCI request 1"),),
        ),
        "memory.max": ("memory.max is as an update requests", (Input("memory_limit", "75497472", "OCI request 2"),)),
        "memory.swap.max": (
            "memory.swap.max is as an update requests",
            (Input("memory_limit", "75497472", "OCI request 2"),),
        ),
        "cpuset.mems": (f"cpuset.mems is {stays}", (Input("mems", "0", "OCI request 1"),)),
    }
    assert knobs[Knob.MEMORY_HIGH].reason.source.endswith("OCI runtime specification, linux.resources.unified")


def test_a_property_of_the_unit_is_runc_s_file():
    container = requested(UNIT_HIGH, RUNC, RuntimeHost())
    expected = cgroup(container)[Knob.MEMORY_HIGH]
    assert expected.shown == "50331648"
    assert expected.reason.inputs == (Input("org.systemd.property.MemoryHigh", "50331648", "OCI request 1"),)
    assert scope(container)["memory.high"] == "50331648"


def test_a_property_of_the_unit_is_crun_s_scope_and_not_the_cgroup_below():
    container = requested(UNIT_HIGH, CRUN, RuntimeHost())
    assert shown(container, [Knob.MEMORY_HIGH]) == {"memory.high": "max"}
    knobs = scope_cgroup(container, name="a", parent=POD).knobs
    assert {knob.value: (one.shown, one.reason.rule) for knob, one in knobs.items()} == {
        "memory.min": ("0", "the scope has no MemoryMin: the default applies"),
        "memory.low": ("0", "the scope has no MemoryLow: the default applies"),
        "memory.high": ("50331648", "MemoryHigh of the scope is set"),
    }


def test_a_property_stays_over_an_update():
    part = OciRequest(resources=OciResources(memory_limit=72 * MI))
    container = requested_again(requested(UNIT_HIGH, CRUN, RuntimeHost()), part)
    assert scope(container)["memory.high"] == "50331648"


@pytest.mark.parametrize("runtimes", [RUNC, CRUN], ids=str)
def test_without_systemd_there_is_no_unit_to_have_properties(runtimes):
    container = requested(UNIT_HIGH, runtimes, RuntimeHost(driver=CgroupDriver.CGROUPFS))
    assert shown(container, [Knob.MEMORY_HIGH]) == {"memory.high": "max"}


def test_values_that_runsc_never_reads_are_not_requested():
    container = requested(FIRST, RUNSC, RuntimeHost())
    assert container.inexpressible == {"memory.high": "runsc reads no linux.resources.unified with the systemd driver."}


@pytest.mark.parametrize(
    ("name", "version", "is_called"),
    [
        ("crun", "1.28", "crun 1.28"),
        ("youki", "0.5.3", "youki 0.5.3"),
        ("youki", "", "youki"),
        ("", "", " of unknown version"),
    ],
)
def test_a_program_has_its_reported_name(name, version, is_called):
    assert str(traits_of_program(name, version, OCI_RUNTIMES)) == is_called


def test_a_program_without_a_name_is_in_doubt_where_runcs_versions_differ():
    unknown = Runtimes(cri=BUNDLES, oci=traits_of_program("", "", OCI_RUNTIMES))
    shares = OciRequest(resources=OciResources(cpu_shares=1024))
    assert shown(requested(shares, unknown, RuntimeHost()), [Knob.CPU_WEIGHT]) == {"cpu.weight": "100 or 39"}


YOUKI = Runtimes(cri=BUNDLES, oci=traits_of_program("youki", "0.6.0", OCI_RUNTIMES))
LEFT_OPEN = "youki 0.6.0 is not modelled, and the OCI runtime specification does not specify this file"


def open_files(container):
    planned = requested_cgroup(container, Knob, name="one", parent=CgroupPath())
    return {knob.value: one.unmodelled for knob, one in planned.knobs.items() if one.unmodelled}


def test_an_unmodelled_program_is_judged_by_the_specification():
    asked = OciResources(
        memory_limit=67108864, memory_reservation=1048576, cpu_shares=1024, unified={"memory.high": "1"}
    )
    container = requested(OciRequest(resources=asked), YOUKI, RuntimeHost())
    left = open_files(container)
    assert {*Knob} - {*left} == {"memory.max", "memory.high"}
    assert set(left.values()) == {LEFT_OPEN}
    assert shown(container, [Knob.MEMORY_MAX, Knob.MEMORY_LOW]) == {
        "memory.max": "67108864", "memory.low": "not modelled",
    }  # fmt: skip


def test_its_update_is_judged_by_the_named_values():
    """The specification has no update: the runtime decides about values that an update does not name."""
    asked = OciResources(memory_limit=67108864, unified={"memory.high": "33554432"})
    before = requested(OciRequest(resources=asked), YOUKI, RuntimeHost())
    after = requested_again(before, OciRequest(resources=OciResources(memory_limit=134217728)))
    left = open_files(after)
    assert {*Knob} - {*left} == {"memory.max"}
    assert left["memory.high"] == "youki 0.6.0 is not modelled, and the OCI runtime specification has no update"
    assert left["memory.low"] == LEFT_OPEN
    # A CRI update repeats all earlier values.
    sent = ContainerResources(memory_limit_in_bytes=67108864, unified={"memory.high": "33554432"})
    again = requested_again(requested(sent, YOUKI, RuntimeHost()), ContainerResources(memory_limit_in_bytes=134217728))
    assert {*Knob} - {*open_files(again)} == {"memory.max", "memory.swap.max", "memory.high"}


def test_an_unmodelled_runtimes_cgroup_below_its_scope_exists_only_with_systemd():
    below = replace(YOUKI, oci=replace(YOUKI.oci, below="container"))
    asked = OciRequest(resources=OciResources(memory_limit=64 << 20))
    for driver, subgroup in ((CgroupDriver.SYSTEMD, "container"), (CgroupDriver.CGROUPFS, "")):
        found = requested(asked, below, RuntimeHost(driver=driver))
        assert found.held[0].subgroup == subgroup
        assert below.layout(driver).container(CgroupPath(("pod",)), "1").parts[-1] == (subgroup or "memqos-1")
    assert YOUKI.oci.subgroup == ""
