"""memwatch on this host, watching folders in place of cgroups: tests/vm watches real ones."""

import os
import threading
from pathlib import Path

import pytest

from memqos.cgroupfs.hierarchy import CgroupMount, Unified
from memqos.clock import Deadline, wait
from memqos.errors import DeadlineError, TargetError
from memqos.model.path import CgroupPath
from memqos.probe.sampler import Appended, Failed, GuestSampler, Look, folders_of
from memqos.runtime.fake_cgroups import FAKE_LEGACY
from memqos.target.local import LocalTarget

FILES = ("memory.current", "memory.events", "memory.stat")
POD = CgroupPath.parse("/pod")


def soon(seconds: float = 10) -> Deadline:
    return Deadline.after(seconds)


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    folder = tmp_path / "pod"
    folder.mkdir()
    (folder / "memory.current").write_text("4096\n")
    return folder


@pytest.fixture
def sampler(tmp_path: Path, memwatch: Path) -> GuestSampler:
    mount = CgroupMount(folder=str(tmp_path), options=frozenset())
    return GuestSampler(LocalTarget(), Unified(mount), program=str(memwatch))


def changes(said, folder: Path) -> dict[str, str | None]:
    return {
        name: text
        for one in said
        if isinstance(one, Look) and one.folder == str(folder)
        for name, text in one.files.items()
    }


def until(sampling, holds) -> list:
    """All messages until this holds."""
    heard: list = []

    def listen() -> bool:
        heard.extend(sampling.next(seconds=0.05))
        return holds(heard)

    wait("memwatch says it", listen, deadline=soon(), every=0.0)
    return heard


def test_only_changes_are_reported(sampler, pod):
    with sampler.open([POD], FILES) as sampling:
        first = sampling.look(deadline=soon())
        assert changes(first, pod) == {"memory.current": "4096\n", "memory.events": None, "memory.stat": None}
        assert not changes(sampling.look(deadline=soon()), pod)
        (pod / "memory.current").write_text("8192\n")
        assert changes(sampling.look(deadline=soon()), pod) == {"memory.current": "8192\n"}


def test_expensive_files_are_read_with_a_requested_look(sampler, pod):
    """memory.stat is read once a second: values judged by it must be current."""
    (pod / "memory.stat").write_text("pgsteal 0\n")
    with sampler.open([POD], FILES) as sampling:
        sampling.look(deadline=soon())
        for pages in range(1, 6):
            (pod / "memory.stat").write_text(f"pgsteal {pages}\n")
            assert changes(sampling.look(deadline=soon()), pod) == {"memory.stat": f"pgsteal {pages}\n"}


def test_memwatch_exits_when_nothing_is_watched(sampler, pod):
    with sampler.open([POD], FILES) as sampling:
        assert changes(sampling.look(deadline=soon()), pod)
        sampling.finish()
        with pytest.raises(TargetError, match="memwatch ended with 0"):
            until(sampling, lambda _: False)


def test_the_clock_is_enough_without_notifications(sampler, pod):
    with sampler.open([POD], FILES) as sampling:
        sampling.look(deadline=soon())
        (pod / "memory.current").write_text("8192\n")
        [look] = until(sampling, bool)
    assert (look.why, look.files) == ("clock", {"memory.current": "8192\n"})


def test_later_cgroups_are_watched_and_removed_ones_reported(sampler, pod):
    inner = pod / "scope" / "container"
    with sampler.open([POD], FILES) as sampling:
        sampling.look(deadline=soon())
        inner.mkdir(parents=True)
        (inner / "memory.current").write_text("1\n")
        heard = until(sampling, lambda said: changes(said, inner).get("memory.current") == "1\n")
    assert {one.why for one in heard if isinstance(one, Look) and one.folder == str(pod / "scope")} == {"new"}


def test_a_cgroup_that_appears_later_is_watched_with_its_children(sampler, pod):
    """Its own folder sends no notifications; for those below it, the kernel does."""
    later = pod.parent / "later"
    with sampler.open([CgroupPath.parse("/later")], FILES) as sampling:
        assert not changes(sampling.look(deadline=soon()), later)
        for folder in (later, later / "container", later / "container" / "inner"):
            folder.mkdir()
            (folder / "memory.current").write_text("1\n")
            until(sampling, lambda said, at=folder: changes(said, at).get("memory.current") == "1\n")


def test_bytes_that_are_no_text_arrive_as_escapes(sampler, pod):
    (pod / "memory.current").write_bytes(b'"\\\xff\t\n')
    with sampler.open([POD], FILES) as sampling:
        assert changes(sampling.look(deadline=soon()), pod)["memory.current"] == '"\\\\xff\t\n'


def test_a_file_is_followed_from_its_beginning_even_if_it_appears_later(sampler, pod, tmp_path):
    log = tmp_path / "log"
    with sampler.open([POD], FILES) as sampling:
        sampling.follow("web/app", str(log), patient="step")
        sampling.look(deadline=soon())
        log.write_text("one\ntw")
        heard = until(sampling, lambda said: any(isinstance(one, Appended) for one in said))
        with log.open("a") as file:
            file.write("o\n")
        heard += until(sampling, lambda said: any(isinstance(one, Appended) for one in said))
    texts = [one.text for one in heard if isinstance(one, Appended)]
    assert "".join(texts) == "one\ntwo\n"
    assert {one.name for one in heard if isinstance(one, Appended)} == {"web/app"}


@pytest.fixture
def followed(sampler, pod, tmp_path):
    """A sampling whose clock stands still, and a log that it follows, in which steps may wait."""
    log = tmp_path / "log"
    log.write_text("begun\n")
    with sampler.open([POD], FILES) as sampling, log.open("a", buffering=1) as file:
        sampling.tell("every", "600000")
        sampling.follow("web/app", str(log), patient="step")
        # The look that is already due still comes, and the clock stands still from the next one on.
        file.write("stands\n")
        until(sampling, lambda said: "stands" in appended(said))
        yield sampling, file


def appended(said) -> str:
    return "".join(one.text for one in said if isinstance(one, Appended))


def test_an_urgent_line_is_reported_before_the_clock_with_earlier_lines(followed, pod):
    sampling, log = followed
    (pod / "memory.current").write_text("8192\n")
    for line in ("step 1\n", "step 2\n", "done\n"):
        log.write(line)
    heard = until(sampling, lambda said: "done" in appended(said))
    assert changes(heard, pod) == {"memory.current": "8192\n"}
    assert appended(heard) == "step 1\nstep 2\ndone\n"


def test_patient_lines_cause_no_wakeup(followed):
    sampling, log = followed
    log.write("step 1\n")
    assert not sampling.next(seconds=0.2)
    assert appended(sampling.look(deadline=soon())) == "step 1\n"


def test_lines_go_to_a_fifo_and_a_missing_reader_is_reported(sampler, pod, tmp_path):
    fifo = tmp_path / "commands"
    os.mkfifo(fifo)
    with sampler.open([POD], FILES) as sampling:
        sampling.write(str(fifo), "anon 5Mi")
        [failed] = [one for one in sampling.look(deadline=soon()) if isinstance(one, Failed)]
        assert (failed.what, failed.path) == ("to", str(fifo))
        handle = os.open(fifo, os.O_RDWR)
        try:
            sampling.write(str(fifo), "anon 5Mi step=1Mi")
            sampling.look(deadline=soon())
            assert os.read(handle, 100) == b"anon 5Mi step=1Mi\n"
        finally:
            os.close(handle)


def test_on_cgroup_v1_each_controller_s_folder_has_its_own_files():
    found = folders_of(FAKE_LEGACY, POD, ("memory.usage_in_bytes", "memory.stat", "cpuset.mems"))
    assert list(found) == [
        ("/sys/fs/cgroup/memory/pod", "memory.usage_in_bytes", "~memory.stat"),
        ("/sys/fs/cgroup/cpuset/pod", "cpuset.mems"),
    ]


def test_a_missing_program_is_reported(tmp_path):
    mount = CgroupMount(folder=str(tmp_path), options=frozenset())
    with (
        GuestSampler(LocalTarget(), Unified(mount), program="/no/such/memwatch").open([], FILES) as sampling,
        pytest.raises(TargetError, match="memwatch ended with 127 while cgroups were watched"),
    ):
        sampling.next(seconds=5)


def test_one_that_hangs_meets_the_deadline_and_is_ended(tmp_path, pod):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nwhile read -r line; do :; done\n")
    silent.chmod(0o755)
    mount = CgroupMount(folder=str(tmp_path), options=frozenset())
    with (
        GuestSampler(LocalTarget(), Unified(mount), program=str(silent)).open([POD], FILES) as sampling,
        pytest.raises(DeadlineError, match="memwatch did not answer within 0"),
    ):
        sampling.look(deadline=soon(0.2))


class Remembering(LocalTarget):
    """This host, which records the programs started on it."""

    def open(self, argv):
        self.opened = super().open(argv)
        return self.opened


def test_it_ends_with_the_context_and_leaves_no_process(tmp_path, memwatch, pod):
    target = Remembering()
    mount = CgroupMount(folder=str(tmp_path), options=frozenset())
    with GuestSampler(target, Unified(mount), program=str(memwatch)).open([POD], FILES):
        threads = threading.active_count()
    assert target.opened.poll() == 0
    assert threading.active_count() == threads
