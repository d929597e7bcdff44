import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.errors import ManifestError, UnknownNameError

GOOD = """
purpose = "tests"
suite = "trixie"
kernel = "linux-image-cloud-amd64"
packages = ["runc"]
overlays = ["common", "more"]
kernel_arguments = ["psi=1"]
masked_units = []
enabled_units = []
"""


@pytest.fixture
def root(tmp_path):
    for folder in ("profiles", "workload", "guest/common/etc", "guest/more/etc"):
        (tmp_path / "vm" / folder).mkdir(parents=True)
    (tmp_path / "vm/profiles/mine.toml").write_text(GOOD)
    (tmp_path / "vm/workload/pause.c").write_bytes(b"int main;")
    (tmp_path / "vm/guest/common/etc/first").write_bytes(b"1")
    (tmp_path / "vm/guest/more/etc/second").write_bytes(b"2")
    return tmp_path


def test_a_profile_carries_everything_that_goes_in(root):
    profile = load_profile("mine", root)
    assert (profile.name, profile.suite, profile.packages) == ("mine", "trixie", ("runc",))
    assert [(file.path, file.content) for file in profile.files] == [("/etc/first", b"1"), ("/etc/second", b"2")]
    assert [(source.program, source.content) for source in profile.sources] == [("pause", b"int main;")]


def test_the_shipped_profile_has_what_vendors_need():
    profile = load_profile("trixie")
    assert {"containerd", "runc", "crun", "python3", "jq", "openssh-server", "numactl"} <= set(profile.packages)
    assert "psi=1" in profile.kernel_arguments
    assert "/etc/containerd/config.toml" in [file.path for file in profile.files]
    assert {"pause", "memload"} <= {source.program for source in profile.sources}


def test_unknown_name_lists_the_known_ones(root):
    assert profile_names(root) == ["mine"]
    with pytest.raises(UnknownNameError, match=r"there is no profile 'bookworm'\. Known: mine\."):
        load_profile("bookworm", root)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('suite = "trixie"', "suite = 13", "suite: must be a text that is not empty"),
        ('suite = "trixie"', "", "suite: must be a text that is not empty"),
        ('packages = ["runc"]', 'packages = "runc"', "packages: must be a list of texts"),
        ('["common", "more"]', '["common", "less"]', "overlays: there is no folder"),
        ("masked_units = []", "masked_unit = []", "masked_unit: is not a field of a profile"),
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
