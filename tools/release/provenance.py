"""What a release was made from and by what: an in-toto statement with SLSA provenance, signed as a DSSE envelope.

The statement has no time and no name of a host, so the same commit and tools give the same statement.
Sources: in-toto Statement v1, SLSA Provenance v1, DSSE v1.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from google.protobuf.json_format import MessageToDict
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, SSlibKey

from tools.release.artifacts import build_backend, sha256
from tools.release.source import ReleaseError, Source

__all__ = ["check", "sign", "statement"]

PREDICATE = "https://slsa.dev/provenance/v1"
PAYLOAD = "application/vnd.in-toto+json"
BUILD_TYPE = "urn:memqos:release:1"
"""What the parameters mean: `python -m tools.release` at the commit, with these options."""

_TOOLS = ("build", "cyclonedx-bom", "pip")
"""Programs of the release environment; the build backend is named by the wheel itself."""


def statement(source: Source, artifacts: Sequence[Path], *, image_base: str, builder: str) -> dict[str, Any]:
    """The unsigned statement over the artifacts. builder: a URI of what ran the build, such as a CI workflow."""
    descriptors = []
    for artifact in sorted(artifacts, key=lambda one: one.name):
        descriptor = ResourceDescriptor(name=artifact.name, digest={"sha256": sha256(artifact)})
        descriptor.validate()
        descriptors.append(descriptor.pb)
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "version": source.version, "tag": source.tag, **({"imageBase": image_base} if image_base else {}),
            },
            "internalParameters": {"SOURCE_DATE_EPOCH": str(source.epoch)},
            "resolvedDependencies": [
                {"name": "memqos", "digest": {"gitCommit": source.commit}},
                *(_tool(name, importlib.metadata.version(name)) for name in _TOOLS),
                *(_tool(*build_backend(one)) for one in artifacts if one.suffix == ".whl"),
                {"name": "python", "uri": f"pkg:generic/python@{platform.python_version()}"},
            ],
        },
        "runDetails": {"builder": {"id": builder}},
    }  # fmt: skip
    made = Statement(descriptors, PREDICATE, predicate)
    made.validate()
    return {"_type": made.pb.type, **{key: value for key, value in MessageToDict(made.pb).items() if key != "type"}}


def _tool(name: str, version: str) -> dict[str, str]:
    return {"name": name, "uri": f"pkg:pypi/{name}@{version}"}


def sign(made: dict[str, Any], key: Path) -> dict[str, Any]:
    """The statement in a DSSE envelope. key: a private key in PEM (Ed25519, ECDSA or RSA) without a passphrase."""
    try:
        private = load_pem_private_key(key.read_bytes(), password=None)
        signer = CryptoSigner(private)  # type: ignore[arg-type] # it refuses other kinds itself
    except (OSError, TypeError, ValueError) as error:
        raise ReleaseError(f"{key}: no usable private key ({error}): openssl genpkey -algorithm ed25519") from error
    envelope = Envelope(_text(made), PAYLOAD, {})
    envelope.sign(signer)
    signed: dict[str, Any] = envelope.to_dict()
    return signed


def check(dist: Path, given: dict[str, Any], key: Path | None) -> list[str]:
    """The names of the artifacts in `dist` that a statement or signed envelope is about.

    ReleaseError if a signature is missing or wrong where a public `key` (PEM) is given, or a digest differs.
    """
    made = given
    if "payload" in given:
        envelope = Envelope.from_dict(json.loads(json.dumps(given)))
        made = json.loads(envelope.payload)
        if key:
            public = SSlibKey.from_crypto(load_pem_public_key(key.read_bytes()))
            try:
                envelope.verify([public], 1)
            except VerificationError as error:
                raise ReleaseError(f"the provenance is not signed by {key}") from error
    elif key:
        raise ReleaseError("the provenance has no signature")
    names = []
    for subject in made["subject"]:
        artifact = dist / subject["name"]
        if not artifact.is_file():
            raise ReleaseError(f"{artifact} is missing, and the provenance names it")
        if sha256(artifact) != subject["digest"]["sha256"]:
            raise ReleaseError(f"{artifact} differs from what the provenance names")
        names.append(subject["name"])
    return names


def _text(made: dict[str, Any]) -> bytes:
    return json.dumps(made, sort_keys=True, separators=(",", ":")).encode()
