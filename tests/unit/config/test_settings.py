import dataclasses
import typing
from pathlib import Path

import pytest

from memqos.config.files import FromFile
from memqos.config.settings import Settings, StatedRuntime, TimeBudget, resolve, unknown_variables
from memqos.config.systems import systems_of
from memqos.config.table import SETTINGS
from memqos.errors import UnknownNameError, UsageError
from memqos.model.node import CgroupDriver, CgroupVersion
from tests.documents import misfits

FILE = (("topology", "four-numa-nodes", 2), ("runtime", "crun", 3), ("driver", "cgroupfs", 4))


def test_the_command_line_wins_over_the_environment_and_that_over_the_default():
    settings = resolve({"runtime": "crun"}, {"MEMQOS_RUNTIME": "runc", "MEMQOS_DRIVER": "cgroupfs"})

    assert (settings.runtime, settings.origins["runtime"]) == (("containerd+crun",), "--runtime")
    assert (settings.driver, settings.origins["driver"]) == ((CgroupDriver.CGROUPFS,), "MEMQOS_DRIVER")
    assert (settings.profile, settings.origins["profile"]) == (("trixie",), "default")


def test_the_environment_wins_over_a_file_and_that_over_the_default():
    files = {name: FromFile(text, f"pyproject.toml:{line}") for name, text, line in FILE}
    settings = resolve({"topology": "one-numa-node"}, {"MEMQOS_RUNTIME": "runc"}, files)

    assert (settings.topology, settings.origins["topology"]) == ("one-numa-node", "--topology")
    assert (settings.runtime, settings.origins["runtime"]) == (("containerd+runc",), "MEMQOS_RUNTIME")
    assert (settings.driver, settings.origins["driver"]) == ((CgroupDriver.CGROUPFS,), "pyproject.toml:4")
    assert settings.origins["cgroup"] == "default"


def test_a_wrong_value_in_a_file_is_reported_with_its_line():
    with pytest.raises(UnknownNameError, match=r"pyproject.toml:9: there is no driver 'upstart'"):
        resolve({}, {}, {"driver": FromFile("upstart", "pyproject.toml:9")})


def test_the_attributes_are_the_table():
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "origins"]
    assert names == [setting.key for setting in SETTINGS]


def test_every_default_has_its_attributes_type():
    hints = typing.get_type_hints(Settings)
    for one in resolve({}, {}).entries():
        kinds = typing.get_args(hints[one.setting.key]) if "|" in str(hints[one.setting.key]) else ()
        kinds = kinds or (typing.get_origin(hints[one.setting.key]) or hints[one.setting.key],)
        assert isinstance(one.value, kinds), one


def test_settings_as_json_match_the_schema():
    given = {"profile": "trixie,forky", "time_budget": "1h30m", "runtime_version": "crun@1.21", "runtime_deb": ("a",)}
    document = resolve(given, {"MEMQOS_KEEP_VM": "1"}).to_json()

    assert misfits({"memqos_format": 1, "settings": document}, "settings") == []
    assert document["profile"] == {"value": ["trixie", "forky"], "origin": "--profile"}
    assert document["time_budget"]["value"] == "1h30m"
    assert document["runtime_version"]["value"] == "crun@1.21"
    assert document["keep_vm"] == {"value": True, "origin": "MEMQOS_KEEP_VM"}
    assert document["driver"] == {"value": ["systemd"], "origin": "default"}
    assert document["results"]["value"] is None


def test_values_have_their_types():
    given = {"kubernetes": "1.27, 1.36,", "keep_vm": True, "parallel": "4", "results": "out", "initrd": "r"}
    settings = resolve(given, {})

    assert settings.kubernetes == ("1.27", "1.36")
    assert settings.keep_vm is True
    assert settings.parallel == 4
    assert settings.results == Path("out")
    assert settings.initrd == Path("r")
    assert settings.topology == "two-numa-nodes"
    assert settings.cgroup is CgroupVersion.V2


def test_without_input_everything_is_default():
    settings = resolve({}, {})

    assert set(settings.origins.values()) == {"default"}
    assert len(settings.origins) == len(SETTINGS)
    assert settings.kubernetes == ()
    assert settings.results is None
    assert settings.profile == ("trixie",)
    assert settings.runtime_binary == ()
    assert settings.keep_vm is False


def test_profiles_are_listed_once_each():
    assert resolve({"profile": "forky, trixie,forky"}, {}).profile == ("forky", "trixie")


@pytest.mark.parametrize(
    ("profile", "arch", "found"),
    [
        ("trixie", "arm64", ("trixie-arm64",)),
        ("trixie", "ppc64le", ("trixie-ppc64le-64k",)),
        ("forky", "ppc64le", ("forky-ppc64le-64k",)),
        ("trixie-arm64-16k", "arm64", ("trixie-arm64-16k",)),
        ("trixie,trixie-arm64-16k", "arm64", ("trixie-arm64", "trixie-arm64-16k")),
        ("trixie-bpo", "amd64", ("trixie-bpo",)),
    ],
)
def test_an_architecture_picks_the_profiles_variant(profile, arch, found):
    assert resolve({"profile": profile, "arch": arch}, {}).profile == found


def test_an_architecture_that_conflicts_with_the_profile_is_rejected():
    with pytest.raises(UsageError, match=r"the profile 'trixie-arm64-16k' is for arm64, not amd64\.") as refused:
        resolve({"profile": "trixie-arm64-16k", "arch": "amd64"}, {})
    assert refused.value.where == "--arch"


def test_runtimes_and_drivers_are_listed_once_each_whatever_they_are_called():
    settings = resolve({"runtime": "crun, oci:runc,containerd+crun", "driver": "cgroupfs,systemd,cgroupfs"}, {})
    assert settings.runtime == ("containerd+crun", "oci:runc")
    assert settings.driver == (CgroupDriver.CGROUPFS, CgroupDriver.SYSTEMD)


def test_several_files_come_from_several_options_or_from_a_path_like_variable():
    assert resolve({"runtime_deb": ("a,b.deb", "c.deb")}, {}).runtime_deb == (Path("a,b.deb"), Path("c.deb"))
    assert resolve({}, {"MEMQOS_KERNEL_DEB": "a.deb:b.deb"}).kernel_deb == (Path("a.deb"), Path("b.deb"))
    assert resolve({}, {}).kernel_deb == ()


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
        ({"MEMQOS_RUNTIME": "runc,oci:9p"}, UnknownNameError, "there is no runtime 'oci:9p'"),
        ({"MEMQOS_RUNTIME": " , "}, UsageError, "MEMQOS_RUNTIME: the value is empty."),
        ({"MEMQOS_DRIVER": "systemd;cgroupfs"}, UnknownNameError, "there is no driver 'systemd;cgroupfs'"),
        ({"MEMQOS_PARALLEL": "99999"}, UsageError, "is not a whole number"),
        ({"MEMQOS_RUNTIME": "runsc"}, UnknownNameError, r"no runtime 'runsc'. Did you mean 'oci:runsc'\?"),
        ({"MEMQOS_RUNTIME": "podman"}, UnknownNameError, "there is no runtime 'podman'. Known: runc, crun, containerd"),
        ({"MEMQOS_PROFILE": ""}, UsageError, "MEMQOS_PROFILE: the value is empty."),
    ],
)
def test_a_wrong_value_names_where_it_came_from(given, kind, words):
    with pytest.raises(kind, match=words.replace(".", r"\.")):
        resolve({}, given)


def test_names_of_options_and_variables_follow_the_setting():
    [binary] = [setting for setting in SETTINGS if setting.name == "runtime-binary"]

    assert (binary.pytest_option, binary.environment, binary.key) == (
        "--memqos-runtime-binary",
        "MEMQOS_RUNTIME_BINARY",
        "runtime_binary",
    )


def test_a_runtimes_version_is_stated_with_or_without_its_name():
    assert resolve({}, {}).runtime_version is None
    assert resolve({"runtime_version": "1.3.6"}, {}).runtime_version == StatedRuntime("", "1.3.6")
    stated = resolve({}, {"MEMQOS_RUNTIME_VERSION": "crun@v1.21"}).runtime_version
    assert stated == StatedRuntime("crun", "v1.21")
    stated = resolve({"runtime_version": "runsc@release-20240729.0"}, {}).runtime_version
    assert stated == StatedRuntime("runsc", "release-20240729.0")


@pytest.mark.parametrize(("name", "version"), [("youki", "0.6"), ("uxc", "2025-01-01"), ("my_runtime.v2", "v1.0-rc.1")])
def test_an_unmodelled_runtime_is_stated_by_its_name(name, version):
    stated = resolve({"runtime_version": f"{name}@{version}"}, {}).runtime_version
    assert stated == StatedRuntime(name, version)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("newest", "--runtime-version: 'newest' is not a version such as 1.3.6"),
        ("", "--runtime-version: '' is not a version"),
        ("runc@", "--runtime-version: 'runc@' is not a version"),
        ("@1.3", "'@1.3' is not a version"),
        ("youki@", "'youki@' is not a version"),
        ("youki@newest", "'youki@newest' is not a version"),
        ("../youki@0.6", "is not a version"),
        ("you ki@0.6", "is not a version"),
        ("a@b@0.6", "is not a version"),
        ("youki@0.6\n", "is not a version"),
        ("runc@1.3.6;id", "is not a version"),
        ("youki;id@0.6", "is not a version"),
        ("yoükí@0.6", "is not a version"),
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
    assert settings.time_budget == TimeBudget(text, seconds)


@pytest.mark.parametrize("text", ["20", "0s", "", "-5m", "5 m", "1.5h", "30m1h", "٣m", "m", "soon", "99999999s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError, match="is not a time, such as 90s, 20m or 1h30m"):
        resolve({"time_budget": text}, {})


def test_without_a_time_budget_a_run_takes_as_long_as_it_takes():
    assert resolve({}, {}).time_budget is None


@pytest.mark.parametrize("name", ["MEMQOS_CACHE", "MEMQOS_DEBIAN_MIRROR", "MEMQOS_PYTHON", "MEMQOS_DRIVER"])
def test_a_variable_in_use_is_not_called_unknown(name):
    assert unknown_variables({name: "x"}) == []
    assert "Did you mean MEMQOS_" in unknown_variables({f"{name}S": "x"})[0]


def test_a_topology_by_its_former_name_is_the_present_one():
    settings = resolve({"topology": "two-zones"}, {})
    assert (settings.topology, settings.origins["topology"]) == ("two-numa-nodes", "--topology")
    assert [one.topology for one in systems_of(settings, topology="one-zone")] == ["one-numa-node"]
