"""The contract of the target port, for adapters that need no machine. tests/vm checks ssh."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.clock import Deadline
from memqos.place.rootless import UserTarget
from memqos.target.attended import attended
from memqos.target.base import CommandResult, Target
from memqos.target.container import ContainerTarget
from memqos.target.contract import check_target_contract
from memqos.target.fake import FakeTarget
from memqos.target.local import LocalTarget


def test_this_host(tmp_path: Path) -> None:
    (tmp_path / "keep").touch()
    check_target_contract(lambda: contextlib.nullcontext(LocalTarget()), folder=str(tmp_path))


def test_this_host_with_agents(tmp_path: Path) -> None:
    (tmp_path / "keep").touch()
    check_target_contract(lambda: attended(LocalTarget()), folder=str(tmp_path))


def test_a_user_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "keep").touch()
    user = UserTarget(LocalTarget(), enter=("sh", "-c", 'exec "$@"', "sh", "env", "-u", "MEMQOS_NOTHING"))
    check_target_contract(lambda: attended(user), folder=str(tmp_path))
    check_target_contract(lambda: contextlib.nullcontext(user), folder=str(tmp_path))


def test_the_fake() -> None:
    fake = FakeTarget(files={"/scratch/keep": b""})
    check_target_contract(lambda: contextlib.nullcontext(fake), folder="/scratch")


def test_a_container_here(tmp_path: Path, docker: Path) -> None:
    (tmp_path / "keep").touch()
    inside = ContainerTarget([str(docker), "exec", "-i", "kind"], address="docker://kind", folder=docker.parent)
    check_target_contract(lambda: contextlib.nullcontext(inside), folder=str(tmp_path))


class Careless(FakeTarget):
    """An adapter with one fault, to see that the contract can be broken."""

    fault = ""

    def run(self, argv, *, deadline, stdin=b"") -> CommandResult:  # type: ignore[no-untyped-def]
        if self.fault == "joins its words" and argv[0] == "printf":
            argv = [*argv[:2], *" ".join(argv[2:]).split()]
        if self.fault == "forgets standard input":
            stdin = b""
        if self.fault == "forgets deadlines":
            deadline = Deadline.after(1000)
        return super().run(argv, deadline=deadline, stdin=stdin)

    def read(self, path, *, deadline):  # type: ignore[no-untyped-def]
        found = super().read(path, deadline=deadline)
        return b"" if self.fault == "takes missing for empty" and found is None else found

    def list(self, path, *, deadline):  # type: ignore[no-untyped-def]
        found = super().list(path, deadline=deadline)
        return found[::-1] if self.fault == "does not sort" and found else found


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        ("joins its words", "each word unchanged"),
        ("forgets standard input", "every byte unchanged"),
        ("forgets deadlines", "is a DeadlineError"),
        ("takes missing for empty", "not there is None"),
        ("does not sort", "sorted names"),
    ],
)
def test_a_broken_adapter_gets_the_promise_it_breaks(fault: str, promise: str) -> None:
    @contextlib.contextmanager
    def careless() -> Iterator[Target]:
        target = Careless(files={"/scratch/keep": b""})
        target.fault = fault
        yield target

    with pytest.raises(AssertionError, match=promise):
        check_target_contract(careless, folder="/scratch")
