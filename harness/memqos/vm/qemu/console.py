"""The serial console's log: its tail for reports, and the disasters that only it tells of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TAIL_LINES", "Console", "find_disaster", "plain_lines"]

TAIL_LINES = 30
"""How many lines an error carries."""

DISASTERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Kernel panic - not syncing: (.+)"), "the guest's kernel panicked: {0}"),
    # A lockup under software emulation says that the host was busy, not that the guest is broken.
    (re.compile(r"(?:BUG: (?!soft lockup|workqueue lockup)|Oops: )(.+)"), "the guest's kernel hit a bug: {0}"),
    (re.compile(r"Out of memory: Killed process 1 \((.+?)\)"), "the guest's init ({0}) was killed for lack of memory"),
    (re.compile(r"You are in (?:rescue|emergency) mode"), "the guest's systemd fell back to its emergency shell"),
)
"""What to look for, worst first, and the sentence it becomes."""

LOST_TIMER = re.compile(r"rcu: \S+ kthread timer wakeup didn't happen for \d+ jiffies")
"""What the kernel's watch over RCU says when a timer that it set did not fire (kernel/rcu/tree_stall.h)."""

LOST_AFTER = 2
"""How often it says so before the timer counts as lost.

Once a guest may say it that the host kept from running for 21 s: when it looks again, it has run for some 63 s more, in
which the timer could fire.
"""

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?!]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()].|.)")
"""Terminal control: colours, titles and cursor movements, which systemd writes to any console."""


def plain_lines(raw: bytes) -> list[str]:
    """A log's lines as text: no terminal control, no blank lines, bytes that are not UTF-8 as escapes."""
    text = ESCAPES.sub("", raw.decode("utf-8", "backslashreplace"))
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def find_disaster(lines: list[str]) -> str | None:
    """The worst thing that the console tells of, as a sentence without its full stop; None if it tells of none."""
    for pattern, sentence in DISASTERS:
        for line in lines:
            if match := pattern.search(line):
                return sentence.format(*match.groups())
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """A machine's serial console, written by QEMU to this file."""

    path: Path

    def lines(self) -> list[str]:
        """Everything the console said so far; nothing if QEMU did not start."""
        try:
            return plain_lines(self.path.read_bytes())
        except FileNotFoundError:
            return []

    def tail(self, count: int = TAIL_LINES) -> str:
        """The last `count` lines."""
        return "\n".join(self.lines()[-count:])

    def disaster(self) -> str | None:
        """The worst thing that the console tells of, or None."""
        return find_disaster(self.lines())

    def tells_of_a_lost_timer(self) -> bool:
        """Whether a processor of the guest waits for a timer that will not fire, so that its boot stands still."""
        return sum(LOST_TIMER.search(line) is not None for line in self.lines()) >= LOST_AFTER
