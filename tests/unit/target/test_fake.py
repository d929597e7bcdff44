"""The operations of a test on an in-memory target."""

import pytest

from memqos.clock import Deadline
from memqos.errors import MachineError
from memqos.target.fake import FakeTarget


def soon() -> Deadline:
    return Deadline.after(10)


def test_a_plain_file_is_put_appended_to_and_taken_away() -> None:
    target = FakeTarget(files={"/etc/b": b"b"})
    target.put("/var/log/a", b"one\n")
    target.append("/var/log/a", b"two\n")
    target.append("/etc/c", b"c")
    assert target.file("/var/log/a") == target.read("/var/log/a", deadline=soon()) == b"one\ntwo\n"
    assert target.paths == ("/etc/b", "/etc/c", "/var/log/a")
    assert target.take("/etc/b") == b"b"
    assert (target.file("/etc/b"), target.read("/etc/b", deadline=soon())) == (None, None)
    with pytest.raises(KeyError):
        target.take("/etc/b")


def test_a_script_can_be_replaced_by_one_that_calls_it() -> None:
    target = FakeTarget()
    before = target.script(("true",))
    target.on(("true",), lambda *asked: (before(*asked)[0] + 3, b"", b""))
    assert target.run(["true"], deadline=soon()).status == 3
    with pytest.raises(KeyError):
        target.script(("systemctl",))


def test_a_lost_target_raises_for_every_request() -> None:
    target, lost = FakeTarget(files={"/a": b""}), MachineError("QEMU ended.")
    target.lose(lost)
    for ask in (
        lambda: target.run(["true"], deadline=soon()),
        lambda: target.read("/a", deadline=soon()),
        lambda: target.write("/a", b"", deadline=soon()),
        lambda: target.list("/", deadline=soon()),
        lambda: target.open(["cat"]),
        lambda: target.forward("/run/a.sock"),
    ):
        with pytest.raises(MachineError, match="QEMU ended"):
            ask()
