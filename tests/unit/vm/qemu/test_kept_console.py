"""A console log that an error names still exists after its folder is removed."""

import tempfile
from pathlib import Path

import pytest

from memqos.errors import MachineError
from memqos.vm.qemu.run import outliving_console


def broken(log):
    log.write_text("Kernel panic")
    raise MachineError("it ended.", next_step=f"The whole console is in {log}.")


def test_a_console_outlives_the_folder_that_it_was_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with tempfile.TemporaryDirectory(dir=tmp_path) as name:
        log = Path(name, "serial.log")
        with pytest.raises(MachineError) as raised, outliving_console(Path(name)):
            broken(log)

    place = Path(raised.value.next_step.removeprefix("The whole console is in ").removesuffix("."))
    assert not log.exists()
    assert place.read_text() == "Kernel panic"


def test_a_console_that_stays_is_left_alone(tmp_path):
    (tmp_path / "serial.log").write_text("Kernel panic")
    with pytest.raises(MachineError) as raised, outliving_console(tmp_path / "other"):
        raise MachineError("it ended.", next_step=f"The whole console is in {tmp_path / 'serial.log'}.")

    assert raised.value.next_step == f"The whole console is in {tmp_path / 'serial.log'}."
