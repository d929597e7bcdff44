"""Every table beside this file is held against something, or it is said here why it is not."""

import re

import pytest

from tests.vectors.tables import FOLDER

NOT_USED = {
    "swap_util": "the text of /proc/swaps: node facts are given to the engine, not read by it",
}

FILES = sorted(path.stem for path in FOLDER.glob("*.json"))


def topic(name):
    return re.sub(r"\.v1\..*", "", name)


@pytest.mark.parametrize("name", FILES)
def test_every_table_is_used_or_explained(name):
    modules = "".join(path.read_text() for path in FOLDER.glob("test_*.py") if path.name != "test_tables.py")
    used = f'"{topic(name)}' in modules
    assert used is not (topic(name) in NOT_USED)
