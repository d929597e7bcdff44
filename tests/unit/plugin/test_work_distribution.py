"""Which worker gets which tests, also if one crashes early."""

from types import SimpleNamespace

from memqos.plugin.collection.workers import GroupScheduling

TESTS = [f"test_it.py::test_it[{number}]" for number in range(12)]


class Worker:
    """A worker as the scheduler sees it. is_there: False for one whose end is not reported yet."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self, *, is_there=True):
        self.is_there = is_there
        self.sent = []

    def send_runtest_some(self, indices):
        if not self.is_there:
            raise OSError("cannot send (already closed?)")
        self.sent += indices

    def shutdown(self):
        self.shutting_down = True


def scheduling(*workers):
    values = {"tx": ["popen"] * len(workers), "dist": "loadgroup"}
    option = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(getvalue=values.get, getoption=values.get, option=option)
    made = GroupScheduling().pytest_xdist_make_scheduler(config, None)
    for worker in workers:
        made.add_node(worker)
        made.add_node_collection(worker, TESTS)
    return made


def test_tests_for_a_worker_that_has_crashed_unheard_go_to_another_one():
    gone, other = Worker(is_there=False), Worker()
    tests = scheduling(gone, other)
    tests.schedule()
    assert other.sent

    assert tests.remove_node(gone) in TESTS

    for index in other.sent:  # which grows
        tests.mark_test_complete(other, index)
    assert len(other.sent) == len(TESTS) - 1
    assert tests.tests_finished
