"""A release built from HEAD by its command: what is in it, and that whatever was changed afterwards is noticed."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memqos.version import __version__

pytestmark = pytest.mark.wheel

TOP = Path(__file__).parents[2]


def release(*words, top=TOP):
    """`python -m tools.release` of a checkout."""
    environment = {**os.environ, "PYTHONPATH": f"{top / 'harness'}:{top}"}
    return subprocess.run(
        [sys.executable, "-m", "tools.release", *map(str, words)],
        cwd=top, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def git(*words, top=TOP):
    return subprocess.run(["git", "-C", str(top), *words], capture_output=True, text=True, check=True).stdout.strip()


def key_pair(folder):
    """A private and a public key in PEM, made by openssl."""
    private, public = folder / "key.pem", folder / "key.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return key_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def built(tmp_path_factory, keys):
    """The folder of a whole signed release but for the image; HEAD's version is that of the checkout."""
    dist = tmp_path_factory.mktemp("release") / "dist"
    done = release("build", "--dist", dist, "--key", keys[0])
    assert done.returncode == 0, done.stderr
    return dist


@pytest.fixture
def dist(built, tmp_path):
    """A copy to change."""
    return Path(shutil.copytree(built, tmp_path / "dist"))


def provenance(dist):
    envelope = json.loads((dist / f"memqos-{__version__}.intoto.jsonl").read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    return json.loads(base64.b64decode(envelope["payload"]))


def test_a_release_is_these_files_and_their_checksums(built):
    names = sorted(path.name for path in built.iterdir())

    assert names == sorted(
        [
            "SHA256SUMS", f"memqos-{__version__}-constraints.txt", f"memqos-{__version__}-py3-none-any.whl",
            f"memqos-{__version__}.cdx.json", f"memqos-{__version__}.intoto.jsonl", f"memqos-{__version__}.tar.gz",
        ]
    )  # fmt: skip
    sums = dict(line.split("  ")[::-1] for line in (built / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((built / name).read_bytes()).hexdigest() for name in names if name != "SHA256SUMS"
    }


def test_files_in_the_wheel_have_the_commits_time(built):
    wheel = zipfile.ZipFile(built / f"memqos-{__version__}-py3-none-any.whl")
    committed = datetime.fromtimestamp(int(git("show", "-s", "--format=%ct", "HEAD")), UTC)

    [times] = {entry.date_time for entry in wheel.infolist()}
    # A ZIP archive counts in steps of two seconds.
    assert datetime(*times, tzinfo=UTC) == committed.replace(second=committed.second // 2 * 2)


def test_the_sbom_lists_what_the_wheel_installs_and_carries(built):
    text = (built / f"memqos-{__version__}.cdx.json").read_text()
    sbom = json.loads(text)
    wheel = hashlib.sha256((built / f"memqos-{__version__}-py3-none-any.whl").read_bytes()).hexdigest()
    main = sbom["metadata"]["component"]
    components = {one["name"]: one["version"] for one in sbom["components"]}

    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert (main["name"], main["version"], main["purl"]) == ("memqos", __version__, f"pkg:pypi/memqos@{__version__}")
    assert main["hashes"] == [{"alg": "SHA-256", "content": wheel}]
    assert {"click", "grpcio", "pytest", "PyYAML", "qemu.qmp", "rich", "uplot"} <= components.keys()
    assert "pip" not in components
    assert "file://" not in text
    pinned = dict(
        line.split("==") for line in (built / f"memqos-{__version__}-constraints.txt").read_text().splitlines()
    )
    assert pinned == {name: version for name, version in components.items() if name != "uplot"}
    [edges] = [one["dependsOn"] for one in sbom["dependencies"] if one["ref"] == main["bom-ref"]]
    assert "uplot==1.6.32" in edges


def test_the_provenance_names_the_commit_the_tools_and_each_artifact(built):
    made = provenance(built)
    definition = made["predicate"]["buildDefinition"]
    subjects = {one["name"]: one["digest"] for one in made["subject"]}

    assert (made["_type"], made["predicateType"]) == (
        "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1",
    )  # fmt: skip
    assert definition["externalParameters"]["version"] == __version__
    assert definition["internalParameters"]["SOURCE_DATE_EPOCH"] == git("show", "-s", "--format=%ct", "HEAD")
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": git("rev-parse", "HEAD")}
    assert any(one["name"] == "hatchling" for one in definition["resolvedDependencies"])
    assert len(subjects) == 4
    for name, digest in subjects.items():
        assert digest == {"sha256": hashlib.sha256((built / name).read_bytes()).hexdigest()}


def test_a_whole_release_is_verified(built, keys):
    done = release("verify", "--dist", built, "--key", keys[1])

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 4


def test_a_changed_artifact_is_noticed(dist, keys):
    with (dist / f"memqos-{__version__}.tar.gz").open("ab") as opened:
        opened.write(b"\0")

    done = release("verify", "--dist", dist, "--key", keys[1])

    assert done.returncode == 1
    assert f"memqos-{__version__}.tar.gz differs from what the provenance names" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_artifact_is_noticed(dist):
    (dist / f"memqos-{__version__}.cdx.json").unlink()

    assert f"memqos-{__version__}.cdx.json is missing" in release("verify", "--dist", dist).stderr


def test_a_changed_statement_is_noticed(dist, keys):
    file = dist / f"memqos-{__version__}.intoto.jsonl"
    envelope = json.loads(file.read_text())
    made = provenance(dist)
    made["predicate"]["runDetails"]["builder"]["id"] = "urn:another"
    envelope["payload"] = base64.b64encode(json.dumps(made).encode()).decode()
    file.write_text(json.dumps(envelope))

    done = release("verify", "--dist", dist, "--key", keys[1])

    assert done.returncode == 1
    assert "the provenance is not signed by" in done.stderr


def test_another_key_and_no_signature_are_refused(dist, tmp_path):
    _, other = key_pair(tmp_path)
    assert "the provenance is not signed by" in release("verify", "--dist", dist, "--key", other).stderr

    (dist / f"memqos-{__version__}.intoto.jsonl").write_text(json.dumps(provenance(dist)))
    assert "the provenance has no signature" in release("verify", "--dist", dist, "--key", other).stderr


def test_a_folder_with_other_files_is_refused(dist):
    done = release("build", "--dist", dist)

    assert done.returncode == 1
    assert "is not empty" in done.stderr


HOOK = """\
from pathlib import Path
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

class Where(BuildHookInterface):
    def initialize(self, version, build_data):
        Path(self.root, "harness", "memqos", "where.txt").write_text(self.root)
"""


def test_a_build_that_depends_on_its_folder_is_refused(tmp_path):
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--depth=1", f"file://{TOP}", str(clone))
    (clone / "hatch_build.py").write_text(HOOK)
    with (clone / "pyproject.toml").open("a") as opened:
        opened.write("\n[tool.hatch.build.hooks.custom]\n")
    git("add", "-A", top=clone)
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "build: a folder", top=clone)

    done = release("build", "--dist", tmp_path / "dist", top=clone)

    assert done.returncode == 1
    assert "not reproducible: two builds of" in done.stderr
    assert not (tmp_path / "dist").exists()
