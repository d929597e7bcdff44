import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.errors import ManifestError, UnknownNameError
from memqos.vm.profile import LegacyBoot

RECIPE = """
packages = ["dbus"]
overlays = ["common"]
kernel_arguments = ["psi=1"]
masked_units = ["fstrim.timer"]
"""

GOOD = """
purpose = "tests"
suite = "trixie"
kernel = "linux-image-cloud-amd64"
packages = ["runc"]
overlays = ["more"]
[cgroup_v1]
refused = "systemd cannot"
"""


@pytest.fixture
def root(tmp_path):
    for folder in ("profiles", "workload/pause", "guest/common/etc", "guest/more/etc"):
        (tmp_path / "vm" / folder).mkdir(parents=True)
    (tmp_path / "vm/recipe.toml").write_text(RECIPE)
    (tmp_path / "vm/profiles/mine.toml").write_text(GOOD)
    (tmp_path / "vm/workload/pause/pause.c").write_bytes(b"int main;")
    (tmp_path / "vm/workload/pause/pause.h").write_bytes(b"")
    (tmp_path / "vm/guest/common/etc/first").write_bytes(b"1")
    (tmp_path / "vm/guest/more/etc/second").write_bytes(b"2")
    return tmp_path


def test_a_profile_has_all_parts_of_the_image(root):
    profile = load_profile("mine", root)
    assert (profile.name, profile.suite, profile.kernel_suite) == ("mine", "trixie", "")
    assert [(file.path, file.content) for file in profile.files] == [("/etc/first", b"1"), ("/etc/second", b"2")]
    (program,) = profile.programs
    assert program.name == "pause"
    assert [(file.name, file.content) for file in program.sources] == [("pause.c", b"int main;"), ("pause.h", b"")]


def test_a_profiles_lists_are_added_to_the_recipes(root):
    profile = load_profile("mine", root)
    assert profile.packages == ("dbus", "runc")
    assert (profile.kernel_arguments, profile.masked_units, profile.enabled_units) == (
        ("psi=1",),
        ("fstrim.timer",),
        (),
    )


def test_a_package_of_another_suite_replaces_the_plain_one(root):
    (root / "vm/recipe.toml").write_text(RECIPE.replace('["dbus"]', '["runc", "dbus"]'))
    (root / "vm/profiles/mine.toml").write_text(GOOD.replace('["runc"]', '["runc/experimental", "jq"]'))
    profile = load_profile("mine", root)
    assert profile.packages == ("runc/experimental", "dbus", "jq")
    assert profile.suites == ("trixie", "experimental")


def test_a_profile_has_its_arguments_for_cgroup_v1(root):
    assert load_profile("mine", root).cgroup_v1 == LegacyBoot(refused="systemd cannot")
    file = root / "vm/profiles/mine.toml"
    file.write_text(GOOD.replace('refused = "systemd cannot"', 'kernel_arguments = ["swapaccount=1"]'))
    assert load_profile("mine", root).cgroup_v1 == LegacyBoot(kernel_arguments=("swapaccount=1",))


def test_the_shipped_profiles_are_suites_kernels_and_architectures():
    profiles = {name: load_profile(name) for name in profile_names()}
    assert {
        name: (profile.suite, profile.kernel_suite, profile.architecture.name) for name, profile in profiles.items()
    } == {
        "bookworm": ("bookworm", "", "amd64"),
        "forky": ("forky", "", "amd64"),
        "forky-ppc64le-64k": ("forky", "", "ppc64le"),
        "sid": ("sid", "", "amd64"),
        "trixie": ("trixie", "", "amd64"),
        "trixie-arm64": ("trixie", "", "arm64"),
        "trixie-arm64-16k": ("trixie", "", "arm64"),
        "trixie-bpo": ("trixie", "trixie-backports", "amd64"),
        "trixie-ppc64le-64k": ("trixie", "", "ppc64le"),
    }
    assert [name for name, profile in profiles.items() if not profile.cgroup_v1.refused] == ["bookworm"]


@pytest.mark.parametrize("name", profile_names())
def test_the_shipped_profiles_have_what_vendors_need(name):
    profile = load_profile(name)
    assert {"containerd", "runc", "crun", "python3", "jq", "openssh-server", "numactl"} <= {
        package.partition("/")[0] for package in profile.packages
    }
    assert "psi=1" in profile.kernel_arguments
    assert "/etc/containerd/config.toml" in [file.path for file in profile.files]
    assert {"pause", "memload"} <= {program.name for program in profile.programs}


@pytest.mark.parametrize(
    ("name", "console"),
    [("trixie", "ttyS0"), ("trixie-arm64-16k", "ttyAMA0"), ("trixie-ppc64le-64k", "hvc0")],
)
def test_a_profile_has_the_serial_console_of_its_architecture(name, console):
    profile = load_profile(name)
    assert f"console={console}" in profile.kernel_arguments
    assert f"serial-getty@{console}.service" in profile.masked_units
    assert not any("{" in word for word in (*profile.kernel_arguments, *profile.masked_units))


@pytest.mark.parametrize("name", profile_names())
def test_memqos_makes_the_initrd_of_every_architecture_but_amd64(name):
    profile = load_profile(name)
    assert (profile.init is None) is (profile.architecture.name == "amd64")


def test_an_architecture_must_be_supported(root):
    file = root / "vm/profiles/mine.toml"
    file.write_text(GOOD.replace('suite = "trixie"', 'suite = "trixie"\narchitecture = "mips"'))
    with pytest.raises(ManifestError, match=r"'architecture' must be .*arm64"):
        load_profile("mine", root)


def test_unknown_name_lists_the_known_ones(root):
    assert profile_names(root) == ["mine"]
    with pytest.raises(UnknownNameError, match=r"there is no profile 'bookworm'\. Known: mine\."):
        load_profile("bookworm", root)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('suite = "trixie"', "suite = 13", ":3: 'suite' must be a string that is not empty, not 13."),
        ('suite = "trixie"', "", "missing required field 'suite'."),
        (
            'suite = "trixie"',
            'suite = "trixie"\nkernel_suite = ""',
            ":4: 'kernel_suite' must be a string that is not",
        ),
        ('refused = "systemd cannot"', "", ":7: 'cgroup_v1' has either kernel_arguments or refused."),
        ('refused = "systemd cannot"', 'how = "so"', ":8: cgroup_v1: unknown field 'how'."),
        (
            'refused = "systemd cannot"',
            "refused = []",
            ":8: cgroup_v1: 'refused' must be a string that is not",
        ),
        ('refused = "systemd cannot"', "kernel_arguments = 1", "'kernel_arguments' must be a list, each item a string"),
        (
            'packages = ["runc"]',
            'packages = "runc"',
            ":5: 'packages' must be a list, each item a string",
        ),
        ('["more"]', '["less"]', "overlays: there is no folder"),
        ('packages = ["runc"]', "package = []", ":5: unknown field 'package'. Known: packages, overlays, "),
        ("purpose =", "purpose", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_field(root, old, new, words):
    file = root / "vm/profiles/mine.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(ManifestError) as caught:
        load_profile("mine", root)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
