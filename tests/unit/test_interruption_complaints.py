"""What asyncio says of tasks that a signal tore down is nobody's news; without a signal all of it is."""

import asyncio
import gc
import logging
import signal

import pytest

from memqos.interruption import Interruption

COMPLAINTS = logging.getLogger("asyncio")


@pytest.fixture(autouse=True)
def as_before():
    filters = list(COMPLAINTS.filters)
    yield
    COMPLAINTS.filters = filters


def torn_down():
    """A task whose error nobody takes, gone."""

    async def fails():
        raise OSError("the other side is gone")

    async def leaves():
        task = asyncio.ensure_future(fails())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task

    asyncio.run(leaves())
    gc.collect()


def test_without_a_signal_an_unawaited_task_is_reported(caplog):
    with Interruption():
        torn_down()

    assert "exception was never retrieved" in caplog.text
    assert COMPLAINTS.filters == []


def test_after_a_signal_an_unawaited_task_is_not_reported(caplog):
    with Interruption() as interruption:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        interruption.heeded()
        torn_down()
    torn_down()

    assert caplog.text == ""
