"""The numbers of memqos's protocol definition are CRI's, compared with a literal table."""

import json
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor import Descriptor

from memqos.runtime.proto import cri_pb2, cri_pb2_grpc

TABLE = Path(__file__).parents[2] / "golden" / "cri" / "field_numbers.json"


def messages(found: dict[str, Descriptor], prefix: str = "") -> Iterator[tuple[str, Descriptor]]:
    for name, message in found.items():
        if not message.GetOptions().map_entry:
            yield prefix + name, message
            yield from messages(dict(message.nested_types_by_name), f"{prefix}{name}.")


def test_field_and_enum_numbers_are_those_of_cri_v1() -> None:
    seen = {
        name: {field.name: field.number for field in message.fields}
        for name, message in messages(dict(cri_pb2.DESCRIPTOR.message_types_by_name))
    }
    for name, enum in cri_pb2.DESCRIPTOR.enum_types_by_name.items():
        seen[f"enum {name}"] = {value.name: value.number for value in enum.values}
    assert seen == json.loads(TABLE.read_text())


def test_services_are_called_as_in_cri_v1() -> None:
    assert cri_pb2.DESCRIPTOR.services_by_name["RuntimeService"].full_name == "runtime.v1.RuntimeService"
    assert cri_pb2.DESCRIPTOR.services_by_name["ImageService"].full_name == "runtime.v1.ImageService"
    assert hasattr(cri_pb2_grpc, "RuntimeServiceStub")


def test_a_value_of_an_environment_reads_and_writes_as_the_old_string() -> None:
    assert cri_pb2.KeyValue(key="A", value=b"b").SerializeToString() == b"\x0a\x01A\x12\x01b"
