"""How runc is sealed in a guest, and the outcome if that fails."""

from memqos.target.fake import FakeTarget
from memqos.vm.guest.sealed_runc import seal_runc, unseal_runc


def guest(*, place=b"/usr/sbin/runc\n", started=(0, b"", b"")):
    answers = {
        ("sh",): (0, place, b""),
        ("systemd-run",): started,
        ("systemctl",): (5, b"", b""),
        ("journalctl",): (0, b"Starting A sealed copy of runc...\nNo such file or directory\n", b""),
        ("python3",): (0, b"", b""),
    }
    return FakeTarget(commands={name: lambda *_, answer=answer: answer for name, answer in answers.items()})


def test_a_unit_holds_the_copy():
    target = guest()
    assert seal_runc(target) == "from a sealed copy in memory, as runc's contrib/cmd/memfd-bind provides it"
    [*options, _, link, place] = target.ran[-1]
    assert options == [
        "systemd-run",
        "--quiet",
        "--collect",
        "--unit=memqos-sealed-runc.service",
        "--description=A sealed copy of runc",
        "--property=Type=notify",
        "--property=NotifyAccess=all",
        "python3",
        "-c",
    ]
    assert (link, place) == ("/run/memqos-sealed-runc", "/usr/sbin/runc")


def test_a_guest_without_runc_is_left_alone():
    target = guest(place=b"")
    assert seal_runc(target) == "there is none"
    assert [argv[0] for argv in target.ran] == ["sh"]


def test_a_guest_that_cannot_seal_runc_uses_it_from_disk_with_a_reason():
    target = guest(started=(1, b"", b"Job for memqos-sealed-runc.service failed.\n"))
    assert seal_runc(target) == (
        "as it is on the disk, since it could not be sealed: Job for memqos-sealed-runc.service failed. "
        "Starting A sealed copy of runc... No such file or directory"
    )


def test_what_is_not_sealed_need_not_be_unsealed():
    target = guest()
    unseal_runc(target)
    # The mount goes before its target.
    assert [(argv[0], argv[-1]) for argv in target.ran[1:]] == [
        ("python3", "/usr/sbin/runc"),
        ("systemctl", "memqos-sealed-runc.service"),
        ("rm", "/run/memqos-sealed-runc"),
    ]
