"""Every row of the tables in this folder is read by a test, or `unused` has the reason."""

from collections import Counter

import pytest

from tests.vectors import reading
from tests.vectors.tables import FOLDER, table
from tests.vectors.unused import UNUSED


@pytest.mark.after_all
def test_every_row_is_read_or_explained(whole_folder):
    for path in FOLDER.glob("*.json"):
        table(path.stem)
    unread = Counter((file, name) for file, name, _ in reading.ALL - reading.READ)
    explained = {place: count for place, (count, _) in UNUSED.items()}
    differences = [
        f"{place}: {unread[place]} unread" for place in unread | explained if unread[place] != explained.get(place)
    ]
    assert sorted(differences) == []


def test_there_are_tables():
    rows = sum(len(table(name)["rows"]) for name in ("kubelet_functions", "kubelet_podlevel", "derived_memory_high"))
    assert rows == 360 + 144 + 773
