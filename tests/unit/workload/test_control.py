"""The control folder, with memload running on this host in the place of a container's."""

import subprocess
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.errors import DeadlineError, TargetError
from memqos.target.local import LocalTarget
from memqos.workload.command import Anon, Exit, Free
from memqos.workload.control import Control, control_folder
from memqos.workload.report import Done, ExitLine, Failed
from tests.unit.workload.limited import LIMITED


def soon() -> Deadline:
    return Deadline.after(10)


def inside(control: Control, *words: str) -> list[str]:
    """The words that a container gets, with the folder's place on this host instead of the one it would see."""
    return [word.replace(control.mount.container_path, control.mount.host_path) for word in words]


def test_commands_go_in_and_reports_come_out(tmp_path: Path, memload: Path) -> None:
    with control_folder(LocalTarget(), f"{tmp_path}/new/a b", deadline=soon()) as control:
        words = inside(control, *control.arguments([Anon(size=4096)]))
        with subprocess.Popen([*LIMITED, memload, *words], stdout=subprocess.DEVNULL) as process:
            control.await_command(1, deadline=soon())
            control.send(Free(region=1), Free(region=9), deadline=soon())
            lines = control.await_command(3, deadline=soon())
            control.send(Exit(code=5), deadline=soon())
            assert process.wait(10) == 5
        assert isinstance(control.report(deadline=soon())[-1], ExitLine)
    assert [line.verb for line in lines if isinstance(line, Done)] == ["anon", "free"]
    assert [line.what for line in lines if isinstance(line, Failed)] == ["no such region"]
    assert not Path(control.folder).exists()


def test_a_workload_that_has_not_started_has_no_report(tmp_path: Path) -> None:
    with control_folder(LocalTarget(), f"{tmp_path}/c", deadline=soon()) as control:
        assert control.report(deadline=soon()) == ()
        with pytest.raises(DeadlineError, match="the workload ends its command 1"):
            control.await_command(1, deadline=Deadline.after(0))


def test_commands_that_nobody_reads_are_noticed(tmp_path: Path) -> None:
    with (
        control_folder(LocalTarget(), f"{tmp_path}/c", deadline=soon()) as control,
        pytest.raises(DeadlineError, match="dd"),
    ):
        control.send(Exit(), deadline=Deadline.after(0.3))


def test_a_folder_that_is_there_already_is_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "precious").touch()
    with (
        pytest.raises(TargetError, match="File exists"),
        control_folder(LocalTarget(), f"{tmp_path}/c", deadline=soon()),
    ):
        pass
    assert (tmp_path / "c" / "precious").exists()
