import json

import pytest
from click.testing import CliRunner

from memqos.cli import doctor, vm
from memqos.errors import ExitCode, MissingProgramError, UnknownNameError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def invoke(command, *arguments, **options):
    return CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False, **options)


@pytest.mark.parametrize("arguments", [["--help"], *([verb, "--help"] for verb in ("build", "shell", "list", "rm"))])
def test_help_teaches_with_an_example(arguments):
    told = CliRunner().invoke(vm.command, arguments)
    assert told.exit_code == 0
    assert "memqos vm" in told.output or arguments[0] == "list"


def test_an_empty_cache_says_how_to_fill_it(cache):
    told = invoke(vm.command, "list").output
    assert f"Images in {cache}/images: none; `memqos vm build` makes one" in told
    assert "Topologies: one-zone, two-zones, two-zones-no-swap." in told


def test_list_as_json(cache):
    facts = json.loads(invoke(vm.command, "list", "--json").output)
    assert facts["cache"] == str(cache)
    assert facts["images"] == []
    assert "trixie" in facts["profiles"]


@pytest.mark.parametrize("arguments", [["build", "sarge"], ["shell", "sarge"], ["rm", "sarge"]])
def test_an_unknown_profile_is_named_with_the_known_ones(cache, arguments):
    with pytest.raises(UnknownNameError, match=r"there is no profile 'sarge'\. Known: .*trixie"):
        invoke(vm.command, *arguments)


def test_an_unknown_topology_is_refused_before_anything_is_built(cache):
    with pytest.raises(UnknownNameError, match="there is no topology 'nine-zones'"):
        invoke(vm.command, "shell", "--topology", "nine-zones")
    assert not (cache / "images").exists()


@pytest.mark.parametrize("arguments", [["rm"], ["rm", "trixie", "--all"]])
def test_removing_wants_one_thing_said(cache, arguments):
    told = CliRunner().invoke(vm.command, arguments)
    assert told.exit_code == 2
    assert "Name a profile, or give --all." in told.output


def test_removing_takes_whole_and_damaged_entries(cache):
    (cache / "images/trixie-0123456789ab").mkdir(parents=True)
    (cache / "images/other-0123456789ab").mkdir()
    assert "removed" in invoke(vm.command, "rm", "trixie").output
    assert [path.name for path in (cache / "images").iterdir()] == ["other-0123456789ab"]


def test_doctor_names_what_is_missing_and_how_to_get_it(cache, monkeypatch):
    def missing():
        raise MissingProgramError("the program 'qemu' is not installed.", next_step="Install it: apt-get install qemu")

    monkeypatch.setattr(doctor, "find_qemu", missing)
    told = invoke(doctor.command)
    assert (
        "missing  QEMU: the program 'qemu' is not installed.\n         Install it: apt-get install qemu\n"
        in told.output
    )
    assert told.return_value == ExitCode.ENVIRONMENT


def test_doctor_as_json_says_whether_this_host_is_able(cache):
    told = invoke(doctor.command, "--json")
    diagnosis = json.loads(told.output)
    assert diagnosis["able"] is all(check["ok"] for check in diagnosis["checks"])
    assert [check["name"] for check in diagnosis["checks"]][:3] == ["Python", "QEMU", "KVM"]


def test_a_check_that_fails_makes_the_host_not_able():
    fine = doctor.Check(name="a", ok=True, found="there")
    assert doctor.is_able([fine])
    assert not doctor.is_able([fine, doctor.Check(name="b", ok=False, found="not there", fix="install b")])
