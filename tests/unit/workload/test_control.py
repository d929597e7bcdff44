"""The control folder, with memload running on this host in place of a container."""

import subprocess
from pathlib import Path

import pytest

from memqos.clock import Deadline, wait
from memqos.errors import TargetError
from memqos.target.local import LocalTarget
from memqos.workload.command import Anon, Control, Exit, Free, control_folders, line
from memqos.workload.report import Done, ErrorLine, ExitLine, parse_report
from tests.unit.workload.limited import LIMITED


def soon() -> Deadline:
    return Deadline.after(10)


def inside(control: Control, *words: str) -> list[str]:
    """The words that a container gets, with the folder's path on this host instead of the container's."""
    return [word.replace(control.mount.container_path, control.mount.host_path) for word in words]


def test_commands_of_the_arguments_are_done_first_and_then_those_of_the_fifo(tmp_path: Path, memload: Path) -> None:
    with control_folders(LocalTarget(), [f"{tmp_path}/new/a b"], deadline=soon()) as [control]:
        words = inside(control, *control.arguments([Anon(size=4096)]))
        with subprocess.Popen([*LIMITED, memload, *words], stdout=subprocess.PIPE, text=True) as process:
            with Path(control.fifo).open("w") as fifo:
                fifo.write("".join(map(line, [Free(region=1), Free(region=9), Exit(code=5)])))
            assert process.stdout is not None
            lines = parse_report(process.stdout.read(), source="memload")
        assert process.returncode == 5
    assert [one.verb for one in lines if isinstance(one, Done)] == ["anon", "free"]
    assert [one.what for one in lines if isinstance(one, ErrorLine)] == ["no such region"]
    assert isinstance(lines[-1], ExitLine)
    assert not Path(control.folder).exists()


def test_several_folders_are_created_and_removed_at_once(tmp_path: Path) -> None:
    with control_folders(LocalTarget(), [f"{tmp_path}/a", f"{tmp_path}/b"], deadline=soon()) as controls:
        assert all(Path(control.fifo).is_fifo() for control in controls)
        # A workload of an ordinary user opens it for both directions.
        assert {Path(control.fifo).stat().st_mode & 0o777 for control in controls} == {0o666}
    wait("both are gone", lambda: not list(tmp_path.iterdir()), deadline=soon())


def test_an_existing_folder_belongs_to_another_run(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "precious").touch()
    with (
        pytest.raises(TargetError, match="File exists"),
        control_folders(LocalTarget(), [f"{tmp_path}/c"], deadline=soon()),
    ):
        pass
    assert (tmp_path / "c" / "precious").exists()
