"""The contract of the place port, for machines."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.place.contract import PlaceCase, check_place_contract
from memqos.place.vm import opened_vm
from memqos.vm.host.progress import SILENT
from memqos.vm.options import BootOptions

pytestmark = pytest.mark.vm


@contextlib.contextmanager
def machine_case(folder: Path) -> Iterator[PlaceCase]:
    """A machine whose QEMU somebody kills."""
    with opened_vm(("trixie", "one-zone"), BootOptions(), folder=folder, progress=SILENT) as place:
        pid = place._machine.pid

        def lose() -> None:
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

        yield PlaceCase(place=place, lose=lose)


def test_a_machine_of_a_profile(tmp_path: Path) -> None:
    check_place_contract(lambda: machine_case(tmp_path / "machine"))
