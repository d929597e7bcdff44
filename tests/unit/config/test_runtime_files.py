"""OCI runtimes by path, and invalid ones."""

from pathlib import Path

import pytest

from memqos.config.runtime_files import RuntimeFile, runtime_file
from memqos.config.settings import resolve
from memqos.config.systems import named_runtime_files, systems_of, with_another_runtime
from memqos.errors import UnknownNameError, UsageError
from memqos.place.opening import check_places


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("uxc=./build/uxc", "uxc", "build/uxc"),
        ("./a=b", "", "a=b"),
        ("/opt/uxc", "", "/opt/uxc"),
        ("my.uxc-2=x=y", "my.uxc-2", "x=y"),
    ],
)
def test_a_file_has_a_name_or_none(text, name, path):
    found = runtime_file(text, "--runtime-binary")
    assert found == RuntimeFile(name, Path(path))
    assert runtime_file(str(found), "") == (found if name or "=" not in path else RuntimeFile("a", Path("b")))


@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        ("oci:./uxc", "oci:uxc"),
        ("oci:/opt/bin/my-runtime.v2", "oci:my-runtime.v2"),
        ("containerd+./uxc", "containerd+uxc"),
        ("docker+../uxc", "docker+uxc"),
        ("./uxc", "containerd+uxc"),
    ],
)
def test_a_path_is_a_runtime_of_the_files_name(chosen, name):
    settings = resolve({"runtime": chosen}, {})
    assert settings.runtime == (name,)
    assert [one.runtime for one in systems_of(settings)] == [name]
    [file] = named_runtime_files(settings)
    assert (file.name, file.option) == (file.path.name, "--runtime")
    assert settings.origins["runtime_binary"] == "--runtime"


def test_one_file_may_be_run_in_several_ways():
    settings = resolve({"runtime": "oci:./uxc,containerd+./uxc"}, {})
    assert settings.runtime == ("oci:uxc", "containerd+uxc")
    assert len(settings.runtime_binary) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"runtime": "oci:./my runtime"}, "--runtime: './my runtime' has no valid runtime name"),
        ({"runtime": "oci:./a/uxc,oci:./b/uxc"}, "'a/uxc' and './b/uxc' are both called uxc"),
        ({"runtime": "oci:./runc,runc"}, "containerd[+]runc is the machine's own, and 'runc' would take its place"),
        ({"runtime": "oci:build/"}, "there is no runtime|cannot be read"),
    ],
)
def test_what_no_runtime_can_be_called_is_refused(given, words):
    with pytest.raises(UsageError, match=words):
        check_places(resolve(given, {}))


def test_a_path_with_arguments_is_no_runtime(tmp_path):
    program = tmp_path / "uxc"
    program.write_text("#!/bin/sh\n")
    words = (
        r"--runtime: '.*uxc --debug': a runtime must be a file without arguments.*exec PROGRAM --debug .*--guest-file"
    )
    with pytest.raises(UsageError, match=words):
        resolve({"runtime": f"oci:{program} --debug"}, {})
    (tmp_path / "uxc --debug").write_text("")
    with pytest.raises(UsageError, match="has no valid runtime name"):
        resolve({"runtime": f"oci:{program} --debug"}, {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"runtime": "oci:runc,oci:crun", "runtime_binary": ["./x"]}, "'x' could be runc or crun.* Name it: runc=x"),
        ({"runtime": "oci:runc", "runtime_binary": ["uxc=./x"]}, "no runtime of the run is called uxc, only runc"),
        ({"runtime": "oci:uxc", "runtime_binary": ["uxc=./x", "./y"]}, "'x' and 'y' would both be uxc"),
    ],
)
def test_a_file_belongs_to_one_runtime(given, words):
    with pytest.raises(UsageError, match=words):
        named_runtime_files(resolve(given, {}))


@pytest.mark.parametrize("runtime", ["oci:youki", "containerd+rumc", "docker+youki"])
def test_a_runtime_without_a_source_is_rejected_before_the_boot(runtime):
    with pytest.raises(UnknownNameError, match=rf"there is no runtime '{runtime.replace('+', '[+]')}'.*PATH"):
        check_places(resolve({"runtime": runtime}, {}))


def test_a_name_that_a_file_or_a_package_brings_is_taken(tmp_path):
    program = tmp_path / "y"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    check_places(resolve({"runtime": "oci:youki", "runtime_binary": [str(program)]}, {}))
    check_places(resolve({"runtime": "oci:youki", "guest_file": [f"{program}:/usr/local/bin/youki:755"]}, {}))


@pytest.mark.parametrize(("given", "against", "mine", "other"), [
    ({"runtime": "oci:runc"}, "crun", [], ("oci:crun", [])),
    ({"runtime": "runc"}, "crun", [], ("containerd+crun", [])),
    ({"runtime": "oci:runc"}, "b/youki", [], ("oci:youki", [("youki", "b/youki")])),
    ({"runtime": "runc"}, "b/youki", [], ("containerd+youki", [("youki", "b/youki")])),
    ({"runtime": "oci:runc"}, "oci:b/youki", [], ("oci:youki", [("youki", "b/youki")])),
    (
        {"runtime": "oci:runc", "runtime_binary": ["./r"]},
        "b/youki",
        [("runc", "r")],
        ("oci:youki", [("runc", "r"), ("youki", "b/youki")]),
    ),
    ({"runtime": "oci:runc", "runtime_binary": ["youki=y"]}, "youki", [], ("oci:youki", [("youki", "y")])),
    ({"runtime": "oci:runc", "runtime_binary": ["./r"]}, "crun", [("", "r")], ("oci:crun", [("", "r")])),
])  # fmt: skip
def test_another_runtime_brings_its_own_file(given, against, mine, other):
    one, second = with_another_runtime(resolve(given, {}), against, option="--against")

    def files(settings):
        return [(file.name, str(file.path)) for file in settings.runtime_binary]

    assert files(one) == mine
    assert (second.runtime, files(second)) == ((other[0],), other[1])


def test_another_runtime_is_another():
    with pytest.raises(UsageError, match=r"--against names the runtime itself, oci:runc\."):
        with_another_runtime(resolve({"runtime": "oci:runc"}, {}), "runc", option="--against")
    with pytest.raises(UsageError, match="no valid runtime name"):
        with_another_runtime(resolve({"runtime": "oci:runc"}, {}), "b/a b", option="--against")
