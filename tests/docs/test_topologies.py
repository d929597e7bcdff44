"""The topologies that the documentation shows are ones, and its table names those that are shipped."""

import re

import pytest

from memqos.catalog.topologies import parse_topology, topology_names
from tests.docs.snippets import DOCS

PAGE = (DOCS / "reference" / "topologies.md").read_text()
SHOWN = [text for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "cxl" not in text]


@pytest.mark.parametrize("text", SHOWN, ids=["NUMA nodes", "groups"])
def test_each_example_is_a_topology(text):
    assert len(parse_topology("shown", text.encode(), file="topologies.md").numa_nodes) >= 3


def test_the_table_is_that_of_the_shipped_ones():
    assert sorted(re.findall(r"^\| `([a-z-]+)` \| (?:a|the|two|four)", PAGE, re.MULTILINE)) == topology_names()
