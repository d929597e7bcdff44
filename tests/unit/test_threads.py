"""Work in another thread, again and again."""

import threading

import pytest

from memqos.threads import repeatedly


def test_work_is_done_until_the_context_ends():
    done, enough = [], threading.Event()

    def work():
        done.append(len(done))
        if len(done) == 3:
            enough.set()

    with repeatedly(work, every=0.01, name="worker"):
        assert enough.wait(30)
    count = len(done)
    assert count >= 3
    assert "worker" not in {one.name for one in threading.enumerate()}


def test_an_error_of_the_work_is_raised_at_the_end_unless_there_is_another():
    failed = threading.Event()

    def work():
        failed.set()
        raise ValueError("work")

    def wait(error=None):
        with repeatedly(work, every=0.01, name="worker"):
            assert failed.wait(30)
            if error:
                raise error

    with pytest.raises(ValueError, match="work"):
        wait()
    with pytest.raises(KeyError, match="own"):
        wait(KeyError("own"))
