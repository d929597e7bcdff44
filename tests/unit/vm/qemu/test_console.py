import pytest

from memqos.vm.qemu.machine import Console, find_disaster, plain_lines


def test_terminal_control_is_no_text():
    raw = b"\x1b[!p\x1b]104\x07\x1b[?7h[    0.1] Linux\r\n\r\n\x1b[0;32m  OK  \x1b[0m done\n"
    assert plain_lines(raw) == ["[    0.1] Linux", "  OK   done"]


def test_bytes_that_are_not_text_are_shown():
    assert plain_lines(b"a\xffb\n") == ["a\\xffb"]


@pytest.mark.parametrize(
    ("line", "disaster"),
    [
        (
            "[   47.1] Kernel panic - not syncing: sysrq triggered crash",
            "the guest's kernel panicked: sysrq triggered crash",
        ),
        ("[    1.0] Oops: 0002 [#1] SMP", "the guest's kernel hit a bug: 0002 [#1] SMP"),
        ("BUG: unable to handle page fault", "the guest's kernel hit a bug: unable to handle page fault"),
        ("Out of memory: Killed process 1 (systemd)", "the guest's init (systemd) was killed for lack of memory"),
        ("You are in emergency mode. After logging in", "the guest's systemd fell back to its emergency shell"),
        ("watchdog: BUG: soft lockup - CPU#0 stuck for 22s!", None),
        ("BUG: workqueue lockup - pool cpus=0", None),
        ("Memory cgroup out of memory: Killed process 211 (memload)", None),
        ("Out of memory: Killed process 1234 (memload)", None),
    ],
)
def test_fatal_messages_are_distinguished_from_ordinary_ones(line, disaster):
    assert find_disaster(["before", line, "after"]) == disaster


def test_a_panic_has_priority_over_the_bug_that_caused_it():
    lines = ["BUG: unable to handle page fault", "Kernel panic - not syncing: Fatal exception"]
    assert find_disaster(lines) == "the guest's kernel panicked: Fatal exception"


WAITS = "[   21.0] rcu: rcu_preempt kthread timer wakeup didn't happen for 5252 jiffies! g-1139 f0x0 ->state=0x402\n"
STARVES = "[   21.0] rcu: rcu_preempt kthread starved for 5252 jiffies! g-1139 f0x0 ->state=0x402 ->cpu=1\n"


@pytest.mark.parametrize(
    ("said", "lost"),
    [("", False), (WAITS, False), (WAITS + "[   21.1] Linux goes on\n" + WAITS, True), (3 * STARVES, False)],
    ids=["quiet", "said once", "said again", "a busy processor"],
)
def test_a_timer_is_lost_when_the_kernel_waits_for_it_again(said, lost, tmp_path):
    (tmp_path / "serial.log").write_text(said)
    assert Console(path=tmp_path / "serial.log").has_lost_its_timer() is lost


def test_tail_is_the_end(tmp_path):
    log = tmp_path / "serial.log"
    log.write_bytes(b"one\ntwo\nthree\n")
    assert Console(path=log).tail(2) == "two\nthree"


def test_a_console_that_was_never_written_is_empty(tmp_path):
    console = Console(path=tmp_path / "none.log")
    assert (console.tail(), console.disaster()) == ("", None)
