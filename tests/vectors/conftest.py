"""The count of rows runs after the tests that read them."""

import pytest

from tests.vectors import reading
from tests.vectors.tables import FOLDER

# It asserts for the tests that call it, with pytest's explanation of differences.
pytest.register_assert_rewrite("tests.vectors.memory_manager")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.get_closest_marker("after_all") is not None)


@pytest.fixture(scope="session")
def whole_folder(request):
    """Skips a test if only some of the tables' tests run: by name, or in several processes."""
    run = {item.path.name for item in request.session.items if item.path.parent == FOLDER}
    missing = {path.name for path in FOLDER.glob("test_*.py")} - run
    options = request.config.option
    parted = not getattr(request.config, "workerinput", {"by_file": True})["by_file"]
    chosen = options.keyword or options.deselect or any("::" in one for one in request.config.args)
    if missing or parted or chosen:
        pytest.skip("which rows are read is known only when all tests of the tables run in one process")


def pytest_runtest_setup():
    reading.running = True
