"""From the release before to this one with `pip install --upgrade`: nothing of the old is left, and the new works.

The release before is the wheel of its tag. Without a tag, it is the wheel of the last commit with another version.
"""

import zipfile
from pathlib import Path

import pytest

from memqos.version import __version__
from tests.docs.snippets import snippets
from tests.wheel.isolated import empty_environment, install, run
from tools.release.source import ReleaseError, Source

pytestmark = pytest.mark.wheel

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def previous(tmp_path_factory, build_wheel):
    """Version and wheel of the release before."""
    try:
        source = Source.of(TOP).previous()
    except ReleaseError as error:
        pytest.skip(f"the history cannot be read: {error}")
    if source is None:
        pytest.skip("the history has no earlier version")
    tree = tmp_path_factory.mktemp("previous")
    source.export(tree)
    return source.version, build_wheel(tree)


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory, previous, wheel):
    """The `memqos` command after the upgrade."""
    version, old = previous
    memqos = empty_environment(tmp_path_factory.mktemp("env"))
    install(memqos, str(old))
    assert run(str(memqos), "--version", cwd=memqos.parent).stdout == f"memqos {version}\n"
    install(memqos, "--upgrade", str(wheel))
    return memqos


def test_the_command_is_the_new_one(upgraded, previous, tmp_path):
    assert previous[0] != __version__

    done = run(str(upgraded), "--version", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, f"memqos {__version__}\n"), done.stderr


def test_no_module_of_the_old_release_is_left(upgraded, wheel):
    [package] = (upgraded.parents[1] / "lib").glob("python3*/site-packages/memqos")

    modules = {str(path.relative_to(package.parent)) for path in package.rglob("*.py")}

    assert modules == {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}


def test_requirements_fit_together(upgraded, tmp_path):
    done = run(str(upgraded.with_name("pip")), "check", cwd=tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_readmes_example_gives_its_number(upgraded, tmp_path):
    """README: request 128Mi, limit 256Mi, factor 0.9 give memory.high = 255012864 with 1.27."""
    files = {one.file: one.body for one in snippets(TOP / "README.md") if one.file}
    assert {"pod.yaml", "kubelet.yaml"} <= files.keys()
    for name, body in files.items():
        (tmp_path / name).write_text(body)

    done = run(
        str(upgraded), "expect", "pod.yaml", "--kubernetes", "1.27", "--kubelet-config", "kubelet.yaml",
        "--why", "memory.high", cwd=tmp_path,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "memory.high of container app of pod default/web: 255012864 (243.2 MiB)" in done.stdout
