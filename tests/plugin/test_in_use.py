"""The runtimes of a machine: as reported, as stated by the user, and as the expectations use them."""

from types import SimpleNamespace

import pytest

from memqos.config.settings import resolve
from memqos.engine.cgroup.cpu import WeightConversion
from memqos.engine.translate.versions import Feature
from memqos.errors import UsageError
from memqos.laboratory.station import runtimes_in_use
from memqos.place.opening import Places
from memqos.place.vm import ProfileRuntimes
from memqos.runtime.base import RuntimeVersion
from memqos.vm.options import BootOptions, RuntimeBinary, check_options
from memqos.vm.profile import Contents, ReportedProgram

CONTAINERD = RuntimeVersion(name="containerd", version="1.7.24~ds1", api_version="v1")
LINEAR, QUADRATIC = WeightConversion
STATED = "by --runtime-version"
OTHER = "(a given file in runc's place"
IMAGE = {"runc": "1.1.15+ds1", "crun": "1.21"}

pytest_plugins = ["pytester"]


def in_use(says=None, versions=IMAGE, hugetlb=True, **given):
    """The image's own runtime, or a file in its place that reports this."""
    name = given.get("runtime", "runc")
    contents = Contents(versions=versions, hugetlb=hugetlb)
    if says is not None:
        contents.brought[name] = ReportedProgram(name=says[0], version=says[1])
    offers = ProfileRuntimes(SimpleNamespace(contents=contents, profile=None)).offered()
    return runtimes_in_use(CONTAINERD, offers[f"containerd+{name}"], resolve(given, {}))


@pytest.mark.parametrize(
    ("says", "given", "shown", "weight"),
    [
        (None, {}, "runc 1.1.15+ds1", LINEAR),
        (None, {"runtime": "crun"}, "crun 1.21", LINEAR),
        (("runc", "1.3.6"), {}, "runc 1.3.6 (a given file)", QUADRATIC),
        (("", ""), {}, "runc of unknown version (a given file)", None),
        (("crun", ""), {"runtime": "crun"}, "crun of unknown version (a given file)", None),
        (("crun", "1.24"), {}, "crun 1.24 (a given file in runc's place)", QUADRATIC),
        (("youki", "0.5.3"), {}, "youki 0.5.3 (a given file in runc's place)", None),
        (("", ""), {"runtime_version": "1.3.6"}, f"runc 1.3.6 (a given file, {STATED})", QUADRATIC),
        (("", ""), {"runtime_version": "crun@1.21"}, f"crun 1.21 (a given file, {STATED})", LINEAR),
        (("crun", ""), {"runtime_version": "1.23"}, f"crun 1.23 (a given file in runc's place, {STATED})", QUADRATIC),
        (("mine", "2"), {"runtime_version": "1.1"}, f"runc 1.1 {OTHER}, {STATED}, it reports mine 2)", LINEAR),
        (None, {"runtime_version": "youki@0.6"}, f"youki 0.6 ({STATED}, it reports runc 1.1.15+ds1)", None),
        (None, {"runtime_version": "1.3"}, f"runc 1.3 ({STATED}, it reports runc 1.1.15+ds1)", None),
        (("runc", "1.3.6"), {"runtime_version": "1.3.6"}, f"runc 1.3.6 (a given file, {STATED})", QUADRATIC),
    ],
)  # fmt: skip
def test_expectations_follow_the_reported_or_the_stated_version(says, given, shown, weight):
    found = in_use(says, **given)
    assert found.shown == ["containerd 1.7.24~ds1", shown]
    oci = found.runtimes.oci
    known = oci.modelled and oci.known(Feature.QUADRATIC_WEIGHT) is not None
    assert (oci.weight if known else None) is weight


def test_unknown_versions_are_noted_with_a_remedy():
    assert in_use().doubt == ""
    assert in_use(("", ""), runtime_version="1.3.6").doubt == ""
    doubt = in_use(("", "")).doubt
    assert "rules apply to containerd 1.7.24~ds1 and runc of unknown version (a given file): what" in doubt
    assert "--runtime-version states" in doubt


def test_an_unmodelled_program_is_judged_by_the_specification_with_a_note():
    found = in_use(("youki", "0.5.3"))
    assert found.runtimes.oci.modelled is False
    assert found.doubt == (
        "youki 0.5.3 (a given file in runc's place): not modelled: its containers are judged only by the OCI runtime "
        "specification (limits, sets of CPUs and nodes, and unified entries), all else is not observable; "
        "--runtime-version states it, if this is a build of runc or crun"
    )
    assert in_use(("youki", "0.5.3"), runtime_version="1.3.6").runtimes.oci.modelled is True


def test_an_unmodelled_cri_server_is_named():
    said = RuntimeVersion(name="uxc-cri", version="0.3", api_version="v1")
    offers = ProfileRuntimes(SimpleNamespace(contents=Contents(versions=IMAGE, hugetlb=True), profile=None)).offered()
    found = runtimes_in_use(said, offers["containerd+runc"], resolve({}, {}))
    assert found.runtimes.cri.modelled is False
    assert found.shown == ["uxc-cri 0.3", "runc 1.1.15+ds1"]
    assert found.doubt == (
        "uxc-cri 0.3: not modelled: its containers are judged only by the fields of CRI (limits of memory and CPU and "
        "sets of CPUs and nodes), all else is not observable"
    )


def test_a_package_whose_program_reports_no_version_is_not_assumed_to_be_the_images():
    assert in_use(versions={"crun": "1.21"}).shown[1] == "runc of unknown version"


def test_crun_in_runcs_place_keeps_containers_below_their_scopes():
    assert in_use(("crun", "1.24")).runtimes.oci.subgroup == "container"
    assert in_use(("youki", "0.5.3")).runtimes.oci.subgroup == ""


def test_a_run_judges_one_build_of_a_program(tmp_path):
    """A machine that is restored later would have got the newer one, under the same verdict."""
    program = tmp_path / "my-runc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    def brought():
        return check_options(BootOptions(runtime_files=(RuntimeBinary(name="runc", path=program),))).brought

    [file] = brought()
    places = Places(resolve({}, {}), progress=None, builds={str(file.path): file.sha256})
    places.need_same_files(brought())
    program.write_text("#!/bin/sh\n# a later build\n")
    with pytest.raises(UsageError, match=r"--runtime-binary: '.*my-runc' changed after the run began\."):
        places.need_same_files(brought())


def test_every_worker_judges_the_build_from_the_start_of_the_run(suite, run, pytester):
    """A worker that gets its first machine later would have got the newer one."""
    program = pytester.path / "my-runc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    suite(
        """
        from memqos.plugin.keys import BUILDS

        @pytest.mark.claim("demo/one")
        def test_it(request, qos_evidence):
            (known,) = request.config.stash[BUILDS].values()
            assert known == "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"
            qos_evidence.settle(finding("conforms"))
        """
    )
    (pytester.path / "suites/conftest.py").write_text(
        "from pathlib import Path\n"
        "def pytest_sessionstart(session):\n"
        "    if not hasattr(session.config, 'workerinput'):\n"
        "        Path('my-runc').write_text('#!/bin/sh\\n# a later build\\n')\n"
    )
    result = run("-n", "1", "--memqos-runtime-binary=my-runc")
    assert result.ret == 0, result.stdout.str()


def test_huge_pages_are_a_matter_of_containerds_configuration():
    assert in_use().runtimes.hugetlb is True
    assert in_use(hugetlb=False).runtimes.hugetlb is False
