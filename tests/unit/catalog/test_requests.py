"""fixtures/requests.toml: requests in CRI's form, and errors about such a file."""

from pathlib import Path

import pytest

from memqos.catalog.requests import load_docker_requests, load_oci_requests, load_requests
from memqos.engine.translate.requested import UpdateInput
from memqos.engine.translate.resources import OciResources
from memqos.errors import ManifestError


def written(folder: Path, text: str, name: str = "requests.toml") -> Path:
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / name).write_text(text)
    return folder


def test_a_request_is_read(tmp_path: Path) -> None:
    text = """
[one]
create = { memory_limit_in_bytes = "64Mi", hugepage_limits = { "2MB" = "4Mi" }, unified = { "memory.min" = "8" } }
updates = [{ memory_limit_in_bytes = -1 }, { cpuset_mems = "0-1" }]
refused = "no such zone"
"""
    one = load_requests(written(tmp_path, text))["one"]
    assert one.create.memory_limit_in_bytes == 67108864
    assert one.create.hugepage_limits == (("2MB", 4194304),)
    assert one.create.unified == {"memory.min": "8"}
    assert [request.memory_limit_in_bytes for request in one.updates] == [-1, 0]
    assert one.requests == (one.create, *one.updates)
    assert one.refused == "no such zone"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[one", "not TOML"),
        ("one = 1", ":1: one: it must be a table, not 1"),
        ("[one]\ncreates = {}", ":2: one: unknown field 'creates'. Known: create, updates, refused, later"),
        ("[one]\nrefused = true", ":2: one: 'refused' must be a string, not True"),
        ("[one]\nupdates = {}", ":2: one: 'updates' must be a list, each item a table, not {}"),
        ("[one]\ncreate = { memory_limit = 1 }", "one.create: unknown field 'memory_limit'. Known: cpu_period"),
        (
            '[one]\ncreate = { memory_limit_in_bytes = "much" }',
            "one.create: 'memory_limit_in_bytes' must be an amount",
        ),
        (
            "[one]\ncreate = { memory_limit_in_bytes = true }",
            "an amount such as .64Mi. or a whole number, not True",
        ),
        (
            '[one]\nupdates = [{ cpu_shares = "2" }]',
            r":2: one.updates\[0\]: 'cpu_shares' must be a whole number",
        ),
        ("[one]\ncreate = { unified = { a = 1 } }", "one.create.unified: 'a' must be a string, not 1"),
        ("[one]\ncreate = { cpuset_mems = 0 }", "one.create: 'cpuset_mems' must be a list such as \"0-1,3\", not 0"),
    ],
)
def test_an_invalid_request_is_rejected_by_its_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        load_requests(written(tmp_path, text))


def test_a_request_to_docker_has_dockers_fields(tmp_path: Path) -> None:
    text = """
[one]
create = { Memory = "64Mi", MemorySwap = -1, CpusetMems = "0" }
updates = [{ OomScoreAdj = 5 }]
"""
    one = load_docker_requests(written(tmp_path, text, "docker.toml"))["one"]
    assert one.create == {"Memory": 67108864, "MemorySwap": -1, "CpusetMems": "0"}
    assert one.requests == (one.create, {"OomScoreAdj": 5})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[one]\ncreate = { memory = 1 }", "one.create: unknown field 'memory'. Known: Memory, MemorySwap"),
        ("[one]\ncreate = { Memory = 1.5 }", "one.create: 'Memory' must be an amount such as"),
    ],
)
def test_an_invalid_request_to_docker_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        load_docker_requests(written(tmp_path, text, "docker.toml"))


def test_a_request_to_an_oci_runtime_has_the_specifications_fields(tmp_path: Path) -> None:
    text = """
[one]
updates = [
    { memory = { limit = "64Mi", checkBeforeUpdate = true }, update_input = "options" },
    { cpu = { cpus = "0", quota = -1 }, unified = { "memory.min" = "8" } },
]

[one.create]
memory = { reservation = 4096 }
annotations = { "org.systemd.property.MemoryHigh" = "uint64 8192", "other" = "x" }
"""
    one = load_oci_requests(written(tmp_path, text, "oci.toml"))["one"]
    assert one.create.resources == OciResources(memory_reservation=4096)
    assert one.create.unit_properties == {"MemoryHigh": 8192}
    assert one.create.annotations["other"] == "x"
    assert [update.update_input for update in one.updates] == [UpdateInput.OPTIONS, UpdateInput.DOCUMENT]
    assert [update.resources for update in one.updates] == [
        OciResources(memory_limit=67108864, check_before_update=True),
        OciResources(cpus="0", cpu_quota=-1, unified={"memory.min": "8"}),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create = 1", ":2: one: 'create' must be a table, not 1"),
        ("create = { Memory = {} }", "Known: memory, cpu, unified, annotations, memoryPolicy, update_input"),
        (
            "create = { memory = { max = 1 } }",
            "one.create.memory: unknown field 'max'. Known: limit, reservation",
        ),
        ("create = { memory = 1 }", "one.create: 'memory' must be a table, not 1"),
        ('create = { memory = { limit = "much" } }', "one.create.memory: 'limit' must be an amount"),
        ("create = { memory = { limit = true } }", "one.create.memory: 'limit' must be an amount"),
        (
            "create = { memory = { checkBeforeUpdate = 1 } }",
            "one.create.memory: 'checkBeforeUpdate' must be true or",
        ),
        ("create = { cpu = { mems = 0 } }", "one.create.cpu: 'mems' must be a list such as"),
        ("create = { unified = { a = 1 } }", "one.create.unified: 'a' must be a string, not 1"),
        ("create = { annotations = [] }", "one.create: 'annotations' must be a table, each value a string"),
        (
            "updates = [{ update_input = true }]",
            r"one.updates\[0\]: 'update_input' must be one of document, file, options",
        ),
        (
            'create = { annotations = { "org.systemd.property.MemoryHigh" = "8192" } }',
            "one: the annotation org.systemd.property.MemoryHigh is not a number",
        ),
        (
            'create = { annotations = { "org.systemd.property.MemoryHigh" = "uint64 much" } }',
            "is not a number such as",
        ),
    ],
)
def test_an_invalid_request_to_an_oci_runtime_is_rejected(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        load_oci_requests(written(tmp_path, f"[one]\n{text}", "oci.toml"))
