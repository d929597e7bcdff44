"""Progress on standard error, with a terminal and without."""

import io

import pytest
from rich.console import Console

from memqos.cli import progress


@pytest.mark.parametrize("terminal", [True, False])
def test_a_note_is_printed_once_for_all_machines(monkeypatch, terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, soft_wrap=True)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    with progress.shown_progress() as shown:
        for text in ("no KVM here", "no KVM here", "no room", "no KVM here"):
            shown.note(text)
    assert (out.getvalue().count("no KVM here"), out.getvalue().count("no room")) == (1, 1)
