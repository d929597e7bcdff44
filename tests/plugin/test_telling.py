from types import SimpleNamespace

import pytest

from memqos.plugin.telling import Telling


def test_what_is_worth_knowing_is_told_once_a_run(monkeypatch):
    told = []
    monkeypatch.setattr(Telling, "line", lambda _, text: told.append(text))
    config = SimpleNamespace(stash=pytest.Stash())
    for _ in range(2):
        telling = Telling(config)
        telling.note("KVM does not run a guest here.")
        telling.note("the checkpoint 'a' is made again.")
    assert told == ["KVM does not run a guest here.", "the checkpoint 'a' is made again."]
