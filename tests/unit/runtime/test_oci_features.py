"""An unmodelled OCI runtime's reports about itself, and the commands used with it."""

import itertools
import json

import pytest

from memqos.engine.translate.memory_policy import MemoryPolicy
from memqos.engine.translate.requested import OciRequest
from memqos.engine.translate.versions import DRIVEN_DIRECTLY, traits_of_program
from memqos.errors import EnvironmentNotAbleError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion
from memqos.runtime.base import Capability
from memqos.runtime.oci import OciRuntime
from memqos.runtime.oci_features import (
    NO_FEATURES,
    UNASKED,
    OciFeatures,
    features_of,
    learn,
    need_driver,
    need_hierarchy,
)
from tests.unit.runtime.test_oci import CONTAINER, SPEC, Host, soon

UXC = traits_of_program("uxc", "0.1", DRIVEN_DIRECTLY)
PLAIN = b"usage: uxc [-h] {create,start,state,kill,delete} ...\n"
FULL = b"USAGE: youki [--root DIR] [--systemd-cgroup] COMMAND\n  create\n  update  Update\n"


def features(**cgroup: bool) -> bytes:
    return json.dumps({"linux": {"cgroup": cgroup}}).encode()


def told(*, said: bytes = b"", help_text: bytes = b"", driver: CgroupDriver = CgroupDriver.CGROUPFS) -> Host:
    host = Host(driver, program="uxc", oci=UXC)
    host.target.on(("test",), lambda *_: (0, b"", b""))
    host.answers |= {
        "--version": (2, b"", b"uxc: unknown option"),
        "features": (0, said, b"") if said else (2, b"", b"uxc: unknown command"),
        "--help": (0, help_text, b"") if help_text else (1, b"", b""),
    }
    return host


def test_a_runtime_without_version_features_and_help_is_taken_to_have_runcs_commands() -> None:
    host = told(driver=CgroupDriver.SYSTEMD)
    host.runtime.greet(deadline=soon())
    assert host.runtime.version(deadline=soon()).name == "uxc"
    assert Capability.UPDATE in host.runtime.capabilities
    host.container()
    [made] = [argv for argv, _ in host.asked if "memqos-create" in argv]
    assert ("--runtime-arg", "--root") in itertools.pairwise(made)
    assert "--systemd-cgroup" in made


@pytest.mark.parametrize(
    ("status", "words"), [(127, "uxc: No such file or directory"), (126, "uxc: Exec format error")]
)
def test_a_runtime_that_the_target_cannot_start_is_not_the_machinerys_failure(status: int, words: str) -> None:
    host = told()
    host.answers["--version"] = (status, b"", f"{words}\n".encode())
    with pytest.raises(EnvironmentNotAbleError, match=f"oci:uxc does not start: {words} Install a build"):
        host.runtime.greet(deadline=soon())


def test_commands_missing_from_its_help_are_not_used() -> None:
    host = told(help_text=PLAIN)
    host.runtime.greet(deadline=soon())
    assert not {Capability.UPDATE, Capability.UPDATE_UNIFIED, Capability.UPDATE_OPTIONS} & host.runtime.capabilities
    container = host.container()
    host.runtime.start(container, deadline=soon())
    assert not [argv for argv, _ in host.asked if "--root" in argv]
    host.runtime.remove(container, deadline=soon())
    [script] = [argv[2] for argv, _ in host.asked if "memqos-delete" in argv]
    assert 'delete --force "$id" 2>/dev/null || { "$@" kill "$id" KILL' in script


def test_commands_in_its_help_are_used() -> None:
    host = told(help_text=FULL, driver=CgroupDriver.SYSTEMD)
    host.runtime.greet(deadline=soon())
    assert Capability.UPDATE in host.runtime.capabilities
    host.container()
    assert [argv for argv, _ in host.asked if "--root" in argv]


@pytest.mark.parametrize(
    ("said", "help_text", "words"),
    [
        (features(systemd=False), b"", "its features have linux.cgroup.systemd false"),
        (b"", PLAIN, "its help does not list --systemd-cgroup"),
    ],
)
def test_a_driver_that_it_does_not_have_is_refused_with_the_reason(said: bytes, help_text: bytes, words: str) -> None:
    host = told(said=said, help_text=help_text, driver=CgroupDriver.SYSTEMD)
    with pytest.raises(UsageError, match=f"oci:uxc does not run under the systemd driver: {words}.*--driver cgroupfs"):
        host.runtime.greet(deadline=soon())


def test_features_go_before_the_help() -> None:
    host = told(said=features(systemd=True), help_text=PLAIN, driver=CgroupDriver.SYSTEMD)
    host.runtime.greet(deadline=soon())


def test_a_hierarchy_that_it_does_not_run_on_is_refused() -> None:
    host = told(said=features(v1=False, v2=True))
    host.target.on(("test",), lambda *_: (1, b"", b""))
    with pytest.raises(UsageError, match=r"does not run on cgroup v1: its features .*Use --cgroup v2"):
        host.runtime.greet(deadline=soon())
    learned = learn(told(said=features(v2=False)).target, "uxc", deadline=soon())
    with pytest.raises(UsageError, match="Use --cgroup v1"):
        need_hierarchy(learned, CgroupVersion.V2, runtime="oci:uxc")


@pytest.mark.parametrize("said", [b"{", b"[]", b"features: all"])
def test_unusable_output_is_ignored(said: bytes) -> None:
    learned = learn(told(said=said).target, "uxc", deadline=soon())
    assert learned == UNASKED
    need_driver(learned, CgroupDriver.SYSTEMD, runtime="oci:uxc")


def policies(*modes: str) -> bytes:
    return json.dumps({"linux": {"memoryPolicy": {"modes": list(modes)}}}).encode()


@pytest.mark.parametrize(
    ("name", "version", "said", "able"),
    [
        ("uxc", "0.1", policies("MPOL_BIND"), True),
        ("uxc", "0.1", features(v2=True), False),
        ("uxc", "0.1", b"", False),
        ("crun", "1.24", b"", True),
        ("crun", "1.21", b"", False),
        ("runc", "1.4.0", features(v2=True), True),
        ("runc", "1.3.6", policies("MPOL_BIND"), True),
        ("runc", "1.4.0", policies(), False),
    ],
)
def test_memory_policies_are_known_by_features_or_by_the_version(
    name: str, version: str, said: bytes, able: bool
) -> None:
    host = told(said=said)
    runtime = OciRuntime(
        host.target, program="uxc", driver=CgroupDriver.CGROUPFS, oci=traits_of_program(name, version, DRIVEN_DIRECTLY)
    )
    host.answers["--version"] = (0, f"{name} version {version}\n".encode(), b"")
    runtime.greet(deadline=soon())
    assert (Capability.MEMORY_POLICY in runtime.capabilities) is able


def test_a_memory_policy_is_in_the_bundle() -> None:
    host = told(said=policies("MPOL_BIND"))
    sandbox = host.runtime.run_sandbox(SPEC, deadline=soon())
    request = OciRequest(memory_policy=MemoryPolicy(mode="MPOL_BIND", nodes="1"))
    host.runtime.create_from(sandbox, CONTAINER, request, deadline=soon())
    [config] = [json.loads(stdin) for argv, stdin in host.asked if "memqos-create" in argv]
    assert config["linux"]["memoryPolicy"] == {"mode": "MPOL_BIND", "nodes": "1"}


# ---- the document of `features`: of the named programs, shortened

RUNC = {
    "ociVersionMin": "1.0.0",
    "ociVersionMax": "1.3.0",
    "linux": {
        "cgroup": {"v1": True, "v2": True, "systemd": True, "systemdUser": True, "rdma": True},
        "memoryPolicy": {
            "modes": ["MPOL_BIND", "MPOL_INTERLEAVE"],
            "flags": ["MPOL_F_NUMA_BALANCING", "MPOL_F_RELATIVE_NODES", "MPOL_F_STATIC_NODES"],
        },
    },
}
MINIMAL = {"ociVersionMin": "1.0.0", "linux": {"cgroup": {"v1": False, "v2": True, "systemd": False}}}


def test_reported_features_are_known():
    found = features_of(RUNC)
    assert found == OciFeatures(
        reported=True,
        v1=True,
        v2=True,
        systemd=True,
        modes=frozenset({"MPOL_BIND", "MPOL_INTERLEAVE"}),
        flags=frozenset({"MPOL_F_NUMA_BALANCING", "MPOL_F_RELATIVE_NODES", "MPOL_F_STATIC_NODES"}),
    )
    assert not any(map(found.lacks_driver, CgroupDriver))
    assert not any(map(found.lacks_hierarchy, CgroupVersion))


def test_a_false_feature_is_a_reason():
    found = features_of(MINIMAL)
    assert found.lacks_driver(CgroupDriver.SYSTEMD) == "its features have linux.cgroup.systemd false"
    assert found.lacks_driver(CgroupDriver.CGROUPFS) == ""
    assert found.lacks_hierarchy(CgroupVersion.V1) == "its features have linux.cgroup.v1 false"
    assert found.lacks_hierarchy(CgroupVersion.V2) == ""
    assert found.modes is None


@pytest.mark.parametrize("document", [{}, {"linux": None}, {"linux": {"cgroup": [], "memoryPolicy": {"modes": "all"}}}])
def test_missing_or_malformed_fields_are_unknown(document):
    assert features_of(document) == OciFeatures(reported=True)


@pytest.mark.parametrize("document", [None, [], "features", 7])
def test_no_document_is_no_features(document):
    assert features_of(document) is NO_FEATURES
