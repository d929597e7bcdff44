import pytest

from memqos.engine.pod.sums import cri_name, page_size_of


@pytest.mark.parametrize(
    ("size", "name"),
    [(2 << 20, "2MB"), (1 << 30, "1GB"), (16 << 30, "16GB"), (64 << 10, "64KB"), (32 << 20, "32MB"), (512, "512B")],
)
def test_names(size, name):
    assert cri_name(size) == name


@pytest.mark.parametrize(
    ("resource", "size"),
    [
        ("hugepages-2Mi", 2 << 20),
        ("hugepages-1Gi", 1 << 30),
        ("hugepages-2097152", 2 << 20),
        ("hugepages-0", None),
        ("hugepages-2MB", None),
        ("hugepages-", None),
        ("memory", None),
    ],
)
def test_sizes(resource, size):
    assert page_size_of(resource) == size
