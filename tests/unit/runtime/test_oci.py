"""The adapter of directly driven runtimes: its commands, its bundle, and the meaning of answers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.engine.translate.requested import OciRequest, UpdateInput
from memqos.engine.translate.resources import OciResources
from memqos.engine.translate.runtimes import TRIXIE
from memqos.engine.translate.versions import Traits, traits_of
from memqos.errors import EnvironmentNotAbleError, MachineryError, RuntimeCallError
from memqos.model.cri import ContainerResources
from memqos.model.node import CgroupDriver
from memqos.runtime import oci_commands
from memqos.runtime.base import (
    OF_BUNDLES,
    CallRecord,
    Capability,
    ContainerHandle,
    ContainerSpec,
    ContainerState,
    Mount,
    Runtime,
    SandboxHandle,
    SandboxSpec,
    SpeaksOci,
)
from memqos.runtime.oci import OciRuntime
from memqos.runtime.oci_commands import GONE
from memqos.target.fake import FakeAnswer, FakeTarget

GOLDEN = Path(__file__).parents[2] / "golden" / "oci" / "config.json"
POD = "/kubepods.slice/kubepods-pod1.slice"
SPEC = SandboxSpec(name="p", namespace="n", uid="1", cgroup_parent=POD, log_directory="/var/log/pods/n_p_1")
ASKED = ContainerResources(
    cpu_shares=102,
    memory_limit_in_bytes=1 << 26,
    oom_score_adj=981,
    cpuset_mems="0",
    hugepage_limits=(("2MB", 4 << 20),),
    unified={"memory.high": "50343936"},
)
CONTAINER = ContainerSpec(
    name="a",
    image="memqos.local/memload:1",
    args=("hold",),
    mounts=(Mount(container_path="/control", host_path="/run/c", readonly=True),),
    resources=ASKED,
)


def soon() -> Deadline:
    return Deadline.after(5)


class Processes:
    """The target's /proc, which has the process 17 as long as `stat` has it."""

    stat: bytes | None = None

    def read(self, path: str) -> bytes | None:
        return self.stat if path == "/proc/17/stat" else None

    def write(self, path: str, data: bytes) -> None:
        raise NotImplementedError

    def list(self, path: str) -> tuple[str, ...] | None:
        raise NotImplementedError


class Host:
    """A target whose runtime answers as a test sets; `asked` has the commands with their standard input."""

    def __init__(
        self, driver: CgroupDriver = CgroupDriver.SYSTEMD, program: str = "runc", oci: Traits = TRIXIE.oci
    ) -> None:
        self.asked: list[tuple[tuple[str, ...], bytes]] = []
        self.answers: dict[str, FakeAnswer] = {"memqos-create": (0, b'{"pid": 17}\n', b"")}
        self.records: list[CallRecord] = []
        self.processes = Processes()
        self.target = FakeTarget(
            commands={(name,): self._answer for name in ("sh", "unshare", program)}, mounts={"/proc": self.processes}
        )
        self.runtime = OciRuntime(self.target, program=program, driver=driver, oci=oci, record=self.records.append)

    def _answer(self, argv: Sequence[str], stdin: bytes, _: Deadline) -> FakeAnswer:
        self.asked.append((tuple(argv), stdin))
        known = [word for word in argv if word in self.answers]
        return self.answers[known[0]] if known else (0, b"", b"")

    def container(self) -> ContainerHandle:
        sandbox = self.runtime.run_sandbox(SPEC, deadline=soon())
        return self.runtime.create(sandbox, CONTAINER, deadline=soon())


@pytest.fixture
def host() -> Host:
    return Host()


def test_it_is_a_runtime_by_the_name_of_its_program(host: Host) -> None:
    assert isinstance(host.runtime, Runtime)
    assert host.runtime.name == "oci:runc"


@pytest.mark.parametrize(
    ("said", "name", "version", "api"),
    [
        ("runc version 1.1.15+ds1\ncommit: 1\nspec: 1.2.0\ngo: go1.24\n", "runc", "1.1.15+ds1", "OCI 1.2.0"),
        ("crun version 1.21\ncommit: 1\nspec: 1.0.0\n+SYSTEMD\n", "crun", "1.21", "OCI 1.0.0"),
        ("mine 3\n", "mine", "3", "OCI"),
    ],
)
def test_its_identity_is_in_its_first_line(host: Host, said: str, name: str, version: str, api: str) -> None:
    host.answers["--version"] = (0, said.encode(), b"")
    told = host.runtime.version(deadline=soon())
    assert (told.name, told.version, told.api_version) == (name, version, api)


def test_a_runtime_without_an_identity_is_an_error(host: Host) -> None:
    host.answers["--version"] = (1, b"", b"Illegal instruction")
    with pytest.raises(RuntimeCallError, match="Illegal instruction"):
        host.runtime.version(deadline=soon())


def test_a_target_without_conmon_is_reported(host: Host) -> None:
    host.answers["--version"] = (0, b"runc version 1.1.15\n", b"")
    host.answers["command -v conmon"] = (127, b"", b"")
    with pytest.raises(EnvironmentNotAbleError, match="conmon is not installed"):
        host.runtime.greet(deadline=soon())


def test_the_bundle_is_the_golden_one(host: Host) -> None:
    container = host.container()
    text = host.asked[0][1].decode().replace(container.id, "ID")
    assert json.loads(text) == json.loads(GOLDEN.read_text())


def test_each_driver_names_the_cgroup_its_way() -> None:
    of = {}
    for driver in CgroupDriver:
        host = Host(driver)
        container = host.container()
        argv, config = host.asked[0]
        of[driver] = json.loads(config)["linux"]["cgroupsPath"].replace(container.id, "ID")
        assert ("--systemd-cgroup" in argv) == (driver is CgroupDriver.SYSTEMD)
    assert of == {CgroupDriver.SYSTEMD: "kubepods-pod1.slice:memqos:ID", CgroupDriver.CGROUPFS: f"{POD}/memqos-ID"}


def test_a_refusal_has_the_runtimes_own_words_and_leaves_nothing(host: Host) -> None:
    host.answers["memqos-create"] = (0, b'{"pid": -1, "message": "runc create failed: bad key"}\n', b"")
    with pytest.raises(RuntimeCallError, match="runc create failed: bad key") as caught:
        host.container()
    assert caught.value.data["method"] == "create"
    assert [word for argv, _ in host.asked for word in argv if word.startswith("memqos-")] == [
        "memqos-create",
        "memqos-delete",
    ]


@pytest.mark.parametrize("printed", ["by conmon", "by itself"])
def test_of_a_hundred_megabytes_the_beginning_and_the_end_are_kept(host: Host, printed: str) -> None:
    words = b"why " + b"x" * 100_000_000 + b" so"
    host.answers["memqos-create"] = (0, b'{"pid": -1, "message": "%s"}\n' % words, b"") if printed == "by conmon" else (
        1, words, words
    )  # fmt: skip
    with pytest.raises(RuntimeCallError, match=r"(?s) so$") as caught:
        host.container()
    assert len(str(caught.value)) + len(str(caught.value.data)) < 5_000
    [created, *_] = host.records
    assert len(str(created.reply)) < 300_000
    assert "… 999" in str(created.reply)


def test_a_failure_of_conmon_is_reported_with_its_words(host: Host) -> None:
    host.answers["memqos-create"] = (0, b"", b"[conmon:e]: Failed to open log")
    with pytest.raises(RuntimeCallError, match="Failed to open log"):
        host.container()


@pytest.mark.parametrize("answer", ["no JSON", "{}", '{"pid": "x"}', "[]"])
def test_an_invalid_conmon_answer_is_a_machinery_error(answer: str) -> None:
    with pytest.raises(MachineryError, match="instead of a process id"):
        oci_commands.conmon_answer(answer)


@pytest.mark.parametrize("image", ["busybox", "memqos.local/memload", "memqos.local/../x:1"])
def test_a_foreign_image_is_refused(host: Host, image: str) -> None:
    sandbox = host.runtime.run_sandbox(SPEC, deadline=soon())
    with pytest.raises(RuntimeCallError, match="no root file system"):
        host.runtime.create(sandbox, dataclasses.replace(CONTAINER, image=image), deadline=soon())


def test_an_update_sends_all_requests_so_far(host: Host) -> None:
    container = host.container()
    host.runtime.update(
        container, ContainerResources(memory_limit_in_bytes=1 << 27, unified={"memory.low": "4096"}), deadline=soon()
    )
    argv, sent = host.asked[-1]
    assert argv[-4:] == ("update", "--resources", "-", container.id)
    assert json.loads(sent) == {
        "memory": {"limit": 134217728, "swap": 134217728},
        "cpu": {"shares": 102, "mems": "0"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}],
        "unified": {"memory.high": "50343936", "memory.low": "4096"},
    }


def test_an_update_that_was_refused_is_not_remembered(host: Host) -> None:
    container = host.container()
    host.answers["update"] = (1, b"", b"device or resource busy")
    with pytest.raises(RuntimeCallError, match="device or resource busy"):
        host.runtime.update(container, ContainerResources(memory_limit_in_bytes=4096), deadline=soon())
    host.answers["update"] = (0, b"", b"")
    host.runtime.update(container, ContainerResources(cpu_shares=204), deadline=soon())
    assert json.loads(host.asked[-1][1])["memory"] == {"limit": 67108864, "swap": 67108864}


@pytest.mark.parametrize(
    ("said", "state", "code", "reason"),
    [
        ('-\n-\n{"status": "created"}', ContainerState.CREATED, None, ""),
        ('-\n-\n{"status": "running"}', ContainerState.RUNNING, None, ""),
        ('-\n-\n{"status": "stopped"}', ContainerState.UNKNOWN, None, ""),
        ("0\n-\n", ContainerState.EXITED, 0, "Completed"),
        ("3\n-\n", ContainerState.EXITED, 3, "Error"),
        ("137\n-\n", ContainerState.EXITED, 137, "Error"),
        ("137\noom\n", ContainerState.EXITED, 137, "OOMKilled"),
    ],
)
def test_a_state_is_mapped_to_a_status(
    host: Host, said: str, state: ContainerState, code: int | None, reason: str
) -> None:
    container = host.container()
    host.answers["memqos-state"] = (0, said.encode(), b"")
    status = host.runtime.status(container, deadline=soon())
    assert (status.state, status.exit_code, status.reason) == (state, code, reason)


LIVES = b"17 (mem) load) S 1 17 17 0 -1 4194560 211 0 0 0 1 2 0 0 20 0 1 0 4711 2514944 98 18446744073709551615\n"


@pytest.mark.parametrize(
    ("stat", "asked"),
    [
        (LIVES, 1),
        (LIVES.replace(b" S ", b" D "), 1),
        (LIVES.replace(b" S ", b" Z "), 2),
        (LIVES.replace(b"4711", b"4712"), 2),
        (b"17 (memload) S 1 17", 2),
        (b"", 2),
        (None, 2),
    ],
    ids=["it lives", "it waits", "nobody waited for it", "another one of its number", "cut short", "empty", "gone"],
)
def test_a_running_container_is_queried_again_after_its_first_process_ended(
    host: Host, stat: bytes | None, asked: int
) -> None:
    host.processes.stat = LIVES
    container = host.container()
    host.answers["memqos-state"] = (0, b'-\n-\n{"status": "running"}', b"")
    host.runtime.status(container, deadline=soon())
    host.processes.stat = stat
    host.runtime.status(container, deadline=soon())
    assert len([argv for argv, _ in host.asked if "memqos-state" in argv]) == asked


def test_a_container_not_seen_alive_at_creation_is_queried_each_time(host: Host) -> None:
    container = host.container()
    host.answers["memqos-state"] = (0, b'-\n-\n{"status": "running"}', b"")
    for _ in range(2):
        host.runtime.status(container, deadline=soon())
    assert len([argv for argv, _ in host.asked if "memqos-state" in argv]) == 2


def test_a_container_not_reported_running_is_queried_each_time(host: Host) -> None:
    host.processes.stat = LIVES
    container = host.container()
    host.answers["memqos-state"] = (0, b'-\n-\n{"status": "created"}', b"")
    for _ in range(2):
        assert host.runtime.status(container, deadline=soon()).state is ContainerState.CREATED


def test_a_state_without_status_is_machinery(host: Host) -> None:
    container = host.container()
    host.answers["memqos-state"] = (0, b"-\n-\nstarting", b"")
    with pytest.raises(MachineryError, match="has no status"):
        host.runtime.status(container, deadline=soon())


def test_a_removed_container_has_no_status(host: Host) -> None:
    container = host.container()
    host.answers["memqos-state"] = (GONE, b"", b"")
    with pytest.raises(RuntimeCallError, match="there is no container"):
        host.runtime.status(container, deadline=soon())


def test_every_command_is_recorded_with_its_input(host: Host) -> None:
    container = host.container()
    host.runtime.start(container, deadline=soon())
    create, start = host.records
    assert create.method == "create"
    assert create.request["document"]["linux"]["resources"]["unified"] == {"memory.high": "50343936"}  # type: ignore[index]
    assert start.request["argv"] == [
        "runc", "--root", "/run/memqos/oci/runc", "--systemd-cgroup", "start", container.id,
    ]  # fmt: skip


def test_a_container_is_looked_at_in_its_bundle_and_in_the_runtimes_own_records(host: Host) -> None:
    container = host.container()
    traces = host.runtime.traces(container, deadline=soon())
    bundle = f"/var/lib/memqos/bundles/runc/{container.sandbox.id}/{container.id}"
    assert traces.spec is None
    assert traces.config == (f"{bundle}/config.json",)
    assert traces.state == (f"/run/memqos/oci/runc/{container.id}/state.json",)
    assert traces.log == (f"{bundle}/conmon.out",)


def test_a_sandbox_has_no_update() -> None:
    host = Host()
    nothing = ContainerResources()
    with pytest.raises(RuntimeCallError) as caught:
        host.runtime.update_sandbox(
            SandboxHandle(id="s", spec=SPEC), overhead=nothing, resources=nothing, deadline=soon()
        )
    assert caught.value.data["code"] == "UNIMPLEMENTED"


RUNSC = traits_of("runsc", "0.0~20240729.0")


def test_runsc_gets_no_network_and_no_fields_that_it_ignores() -> None:
    host = Host(program="runsc", oci=RUNSC)
    container = host.container()
    argv, config = host.asked[0]
    words = " ".join(argv)
    assert "--runtime-arg --root --runtime-arg /run/memqos/oci/runsc" in words
    assert "--runtime-arg --network=none --runtime-arg --overlay2=none" in words
    resources = json.loads(config)["linux"]["resources"]
    assert resources["memory"] == {"limit": 67108864, "swap": 67108864}
    assert {"unified", "hugepageLimits"} & set(resources) == set()
    host.runtime.start(container, deadline=soon())
    assert host.asked[-1][0] == (
        "runsc", "--root", "/run/memqos/oci/runsc", "--network=none", "--overlay2=none", "--systemd-cgroup", "start",
        container.id,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "driver", "lacking"),
    [
        ("0.0~20240729.0", CgroupDriver.CGROUPFS, {Capability.UNIFIED, Capability.UPDATE, Capability.UPDATE_UNIFIED}),
        ("release-20260413.0", CgroupDriver.SYSTEMD, {Capability.UNIFIED, Capability.UPDATE_UNIFIED}),
        ("release-20260413.0", CgroupDriver.CGROUPFS, set()),
    ],
)
def test_runscs_capabilities_depend_on_its_version(
    version: str, driver: CgroupDriver, lacking: set[Capability]
) -> None:
    runsc = Host(driver, program="runsc", oci=traits_of("runsc", version)).runtime
    assert Host(driver).runtime.capabilities - runsc.capabilities - OF_BUNDLES == lacking
    assert runsc.capabilities & OF_BUNDLES == {Capability.BUNDLE}


@pytest.mark.parametrize(
    ("driver", "oci", "able"),
    [
        (CgroupDriver.SYSTEMD, TRIXIE.oci, OF_BUNDLES - {Capability.MEMORY_POLICY}),
        (CgroupDriver.CGROUPFS, TRIXIE.oci, OF_BUNDLES - {Capability.UNIT_PROPERTIES, Capability.MEMORY_POLICY}),
        (CgroupDriver.SYSTEMD, traits_of("crun", "1.21"), OF_BUNDLES - {Capability.EVENTS, Capability.MEMORY_POLICY}),
        (CgroupDriver.SYSTEMD, traits_of("crun", "1.28"), OF_BUNDLES - {Capability.EVENTS}),
        (
            CgroupDriver.SYSTEMD,
            dataclasses.replace(TRIXIE.oci, called="youki 0.5"),
            OF_BUNDLES - {Capability.UNIT_PROPERTIES, Capability.MEMORY_POLICY},
        ),
    ],
)
def test_verbs_beyond_the_port(driver: CgroupDriver, oci: Traits, able: frozenset[Capability]) -> None:
    assert Host(driver, oci=oci).runtime.capabilities & OF_BUNDLES == able


def test_a_bundle_has_the_request_and_its_annotations(host: Host) -> None:
    request = OciRequest(
        resources=OciResources(memory_reservation=4096), annotations={"org.systemd.property.MemoryHigh": "uint64 8192"}
    )
    assert isinstance(host.runtime, SpeaksOci)
    sandbox = host.runtime.run_sandbox(SPEC, deadline=soon())
    host.runtime.create_from(sandbox, CONTAINER, request, deadline=soon())
    config = json.loads(host.asked[0][1])
    assert config["linux"]["resources"]["memory"] == {"reservation": 4096}
    assert config["annotations"] == {"org.systemd.property.MemoryHigh": "uint64 8192"}


PART = OciResources(memory_limit=-1, cpu_shares=512, mems="0-1")


@pytest.mark.parametrize(
    ("request_", "words", "document"),
    [
        (
            OciRequest(resources=PART, update_input=UpdateInput.OPTIONS),
            ("--memory=-1", "--cpu-share=512", "--cpuset-mems=0-1"),
            b"",
        ),
        (
            OciRequest(resources=PART),
            ("--resources", "-"),
            b'{"memory": {"limit": -1}, "cpu": {"shares": 512, "mems": "0-1"}}',
        ),
        (OciRequest(), ("--resources", "-"), b"{}"),
    ],
)
def test_a_partial_update_by_options_or_by_a_document(
    host: Host, request_: OciRequest, words: tuple[str, ...], document: bytes
) -> None:
    container = host.container()
    host.runtime.update_with(container, request_, deadline=soon())
    command = ("runc", "--root", "/run/memqos/oci/runc", "--systemd-cgroup", "update")
    assert host.asked[-1] == ((*command, *words, container.id), document)


def test_a_partial_update_by_a_file_in_the_bundle(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    container = host.container()
    kept: dict[str, bytes] = {}
    monkeypatch.setattr(host.target, "write", lambda path, data, **_: kept.update({path: data}))
    request = OciRequest(resources=PART, update_input=UpdateInput.FILE)
    host.runtime.update_with(container, request, deadline=soon())
    argv, _ = host.asked[-1]
    place = argv[argv.index("--resources") + 1]
    assert place.endswith(f"/{container.id}/update.json")
    assert json.loads(kept[place]) == {"memory": {"limit": -1}, "cpu": {"shares": 512, "mems": "0-1"}}


def test_a_partial_update_is_part_of_later_ones(host: Host) -> None:
    container = host.container()
    host.runtime.update_with(container, OciRequest(resources=OciResources(memory_reservation=4096)), deadline=soon())
    host.runtime.update(container, ContainerResources(cpu_shares=2), deadline=soon())
    assert json.loads(host.asked[-1][1])["memory"] == {"limit": 1 << 26, "reservation": 4096, "swap": 1 << 26}


@pytest.mark.parametrize(
    ("said", "data"),
    [(b'{"type":"stats","id":"a","data":{"memory":{"usage":{"usage":7}}}}\n', {"memory": {"usage": {"usage": 7}}})],
)
def test_stats_are_the_data_of_their_event(host: Host, said: bytes, data: object) -> None:
    host.answers["events"] = (0, said, b"")
    assert host.runtime.stats_event(host.container(), deadline=soon()) == data


@pytest.mark.parametrize("said", [b"", b"[]", b"usage 7", b'{"type":"oom","id":"a"}', b'{"type":"stats","data":7}'])
def test_what_is_no_event_of_stats_is_machinery(host: Host, said: bytes) -> None:
    host.answers["events"] = (0, said, b"")
    with pytest.raises(MachineryError, match="which has no stats"):
        host.runtime.stats_event(host.container(), deadline=soon())


def test_failed_events_are_an_error_with_their_message(host: Host) -> None:
    host.answers |= {"events": (1, b"", b"no such command"), "memqos-followed": (1, b"", b"not running")}
    container = host.container()
    with pytest.raises(RuntimeCallError, match="no such command"):
        host.runtime.stats_event(container, deadline=soon())
    with pytest.raises(RuntimeCallError, match="no such command"):
        host.runtime.follow(container, deadline=soon())
    with pytest.raises(RuntimeCallError, match="not running"):
        host.runtime.followed(container, deadline=soon())


@pytest.mark.parametrize(
    ("said", "types"),
    [
        (b"", ()),
        (b'{"type":"oom","id":"a"}\n', ("oom",)),
        (b'{"type":"stats","id":"a"}\n{"type":"oom"}\n', ("stats", "oom")),
        (b'{"type":"oom","id":"a"}\n{"type":"o', ("oom",)),
    ],
)
def test_events_are_read_line_by_line(host: Host, said: bytes, types: tuple[str, ...]) -> None:
    host.answers["memqos-followed"] = (0, said, b"")
    assert host.runtime.followed(host.container(), deadline=soon()) == types


def test_lines_that_are_no_events_are_machinery(host: Host) -> None:
    host.answers["memqos-followed"] = (0, b"out of memory\n", b"")
    with pytest.raises(MachineryError, match="which are not events"):
        host.runtime.followed(host.container(), deadline=soon())
