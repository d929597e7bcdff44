from pathlib import Path

import pytest

from memqos.config.settings import resolve
from memqos.config.table import SETTINGS
from memqos.errors import UnknownNameError, UsageError


def test_the_command_line_wins_over_the_environment_and_that_over_the_default():
    settings = resolve({"runtime": "crun"}, {"MEMQOS_RUNTIME": "runc", "MEMQOS_DRIVER": "cgroupfs"})

    assert (settings["runtime"].value, settings["runtime"].origin) == ("crun", "--runtime")
    assert (settings["driver"].value, settings["driver"].origin) == ("cgroupfs", "MEMQOS_DRIVER")
    assert (settings["profile"].value, settings["profile"].origin) == (("trixie",), "default")


def test_values_have_their_types():
    given = {"kubernetes": "1.27, 1.36,", "keep_vm": True, "parallel": "4", "results": "out", "initrd": "r"}
    settings = resolve(given, {})

    assert settings.kubernetes == ("1.27", "1.36")
    assert settings.keep_vm is True
    assert settings.parallel == 4
    assert settings.results == Path("out")
    assert settings.plain["initrd"] == Path("r")
    assert settings.word("topology") == "two-zones"


def test_nothing_given_is_every_default():
    settings = resolve({}, {})

    assert {value.origin for value in settings.values()} == {"default"}
    assert len(settings) == len(SETTINGS)
    assert settings.kubernetes == ()
    assert settings.results is None
    assert settings.profiles == ("trixie",)
    assert settings.plain["runtime_binary"] is None
    assert settings.keep_vm is False


def test_profiles_are_listed_once_each():
    assert resolve({"profile": "forky, trixie,forky"}, {}).profiles == ("forky", "trixie")


def test_several_files_come_from_several_options_or_from_a_path_like_variable():
    assert resolve({"runtime_deb": ("a,b.deb", "c.deb")}, {})["runtime_deb"].value == (Path("a,b.deb"), Path("c.deb"))
    assert resolve({}, {"MEMQOS_KERNEL_DEB": "a.deb:b.deb"})["kernel_deb"].value == (Path("a.deb"), Path("b.deb"))
    assert resolve({}, {})["kernel_deb"].value == ()


@pytest.mark.parametrize(
    ("variable", "text", "value"),
    [("MEMQOS_KEEP_VM", "yes", True), ("MEMQOS_KEEP_VM", "0", False), ("MEMQOS_KEEP_VM", "On", True)],
)
def test_a_flag_in_the_environment_is_a_word(variable, text, value):
    assert resolve({}, {variable: text}).keep_vm is value


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"MEMQOS_KEEP_VM": "maybe"}, UsageError, "MEMQOS_KEEP_VM: 'maybe' is neither yes nor no."),
        ({"MEMQOS_PARALLEL": "-1"}, UsageError, "MEMQOS_PARALLEL: '-1' is not a whole number, 1 or more."),
        ({"MEMQOS_PARALLEL": "٣"}, UsageError, "is not a whole number"),
        ({"MEMQOS_PARALLEL": "99999"}, UsageError, "is not a whole number"),
        ({"MEMQOS_RUNTIME": "podman"}, UnknownNameError, "there is no runtime 'podman'. Known: runc, crun, containerd"),
        ({"MEMQOS_PROFILE": ""}, UsageError, "MEMQOS_PROFILE: the value is empty."),
    ],
)
def test_a_wrong_value_names_where_it_came_from(given, kind, words):
    with pytest.raises(kind, match=words.replace(".", r"\.")):
        resolve({}, given)


def test_a_setting_of_another_kind_is_no_word():
    with pytest.raises(TypeError, match="'parallel' is not a word"):
        resolve({}, {}).word("parallel")


def test_names_of_options_and_variables_follow_the_setting():
    [binary] = [setting for setting in SETTINGS if setting.name == "runtime-binary"]

    assert (binary.pytest_option, binary.environment, binary.key) == (
        "--memqos-runtime-binary",
        "MEMQOS_RUNTIME_BINARY",
        "runtime_binary",
    )


def test_a_runtimes_version_is_stated_with_or_without_its_name():
    assert resolve({}, {}).stated_runtime is None
    assert resolve({"runtime_version": "1.3.6"}, {}).stated_runtime == ("", "1.3.6")
    assert resolve({}, {"MEMQOS_RUNTIME_VERSION": "crun@v1.21"}).stated_runtime == ("crun", "v1.21")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("newest", "--runtime-version: 'newest' is not a version such as 1.3.6"),
        ("", "--runtime-version: '' is not a version"),
        ("runc@", "--runtime-version: 'runc@' is not a version"),
        ("youki@0.5", "there is no OCI runtime 'youki'"),
        ("@1.3", "there is no OCI runtime ''"),
        ("1.3.6 or so", "'1.3.6 or so' is not a version"),
        ("1.3\x1b[31m", "is not a version"),
    ],
)
def test_what_is_no_version_of_a_runtime_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        resolve({"runtime_version": text}, {})


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("20m", 1200.0), ("1h30m", 5400.0), ("2h", 7200.0), ("1h1s", 3601.0)]
)
def test_a_time_budget_is_written_with_its_units(text, seconds):
    settings = resolve({"time_budget": text}, {})
    assert settings.time_budget == seconds
    assert settings["time_budget"].value == text


@pytest.mark.parametrize("text", ["20", "0s", "", "-5m", "5 m", "1.5h", "30m1h", "٣m", "m", "soon", "99999999s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is not a time, such as 90s, 20m or 1h30m"):
        resolve({"time_budget": text}, {})


def test_without_a_time_budget_a_run_takes_as_long_as_it_takes():
    assert resolve({}, {}).time_budget is None
