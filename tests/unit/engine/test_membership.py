"""Whether a container's processes are in its cgroup, by its files."""

import pytest

from memqos.engine.answer.finding import Setter, Subject, Verdict
from memqos.engine.answer.verdict import outside_finding, processes_finding
from memqos.model.path import CgroupPath
from memqos.model.reading import NoFile

PATH = CgroupPath.parse("/kubepods/pod1/c")


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ({"cgroup.procs": "7\n8\n"}, Verdict.CONFORMS),
        ({"cgroup.procs": ""}, Verdict.DEVIATES),
        ({"cgroup.procs": "", "cgroup.events": "populated 0\nfrozen 0"}, Verdict.DEVIATES),
        # They are in a cgroup below it, as those of crun's scopes are.
        ({"cgroup.procs": "", "cgroup.events": "populated 1\nfrozen 0"}, Verdict.CONFORMS),
    ],
)
def test_the_files_of_a_running_container(files, verdict):
    found = processes_finding(PATH, files, subject=Subject.of_container("c"))
    assert (found.verdict, found.knob, found.set_by) == (verdict, "cgroup.procs", Setter.RUNTIME)
    assert found.observed == ("there" if verdict is Verdict.CONFORMS else "none")


def test_unread_files_give_no_finding():
    assert processes_finding(PATH, {"cgroup.procs": NoFile.NO_FILE}, subject=Subject.of_container("c")) is None
    assert processes_finding(PATH, {"cgroup.events": "populated 0"}, subject=Subject.of_container("c")) is None


def test_a_container_outside_has_its_place_if_known():
    found = outside_finding(
        PATH, subject=Subject.of_container("c"), knob="cgroup", state="running", where="/system.slice"
    )
    assert (found.knob, found.observed) == ("cgroup", "none, of a container that is running")
    assert found.evidence == {"its processes run in": "/system.slice"}
    assert outside_finding(PATH, subject=Subject.of_container("c")).evidence == {}
