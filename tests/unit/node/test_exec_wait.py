"""How long memqos waits for a second program in a container: as long as the model says."""

import pytest

from memqos.node.behaviour.throttling import ENTRY, SecondProgram, patience, unseen

MIB = 1 << 20


@pytest.mark.parametrize(
    ("high", "usage", "seconds"),
    [
        (None, 100 * MIB, 35.0),
        (50 * MIB, 40 * MIB, 35.0),
        # 17 batches of 64 pages for 4 MiB and a started one, 2 s each: mm/memcontrol.c, MEMCG_MAX_HIGH_DELAY_JIFFIES.
        (50 * MIB, 60 * MIB, 69.0),
        # The runtime's and the program's memory lift 51 MiB to 59 MiB, where a batch costs as much.
        (50 * MIB, 51 * MIB, 69.0),
        # An overage of a tenth at the end: 64 * 0.1^2 = 0.64 s for a batch.
        (50 * MIB, 47 * MIB, 35.0 + 17 * 0.64),
    ],
)
def test_it_is_waited_for_as_long_as_the_model_has_it_take(high, usage, seconds):
    assert ENTRY.within == 5
    assert patience(high, usage, page_size=4096) == pytest.approx(seconds, abs=0.2)


def test_a_program_that_does_not_end_in_time_is_not_observable_with_a_reason():
    entry = SecondProgram(usage=60 * MIB, said=None, waited=69.0)
    why = unseen(entry, SecondProgram(usage=0, said=None), 2.0)
    assert "did not finish within 69 s (the runtime's own program is slowed too) where" in why
    assert "did not finish" in unseen(SecondProgram(usage=0, said=None), entry, 2.0)
