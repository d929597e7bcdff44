"""Each profile's image build on amd64, literal: the commands, memqos's files, and changes of the command line."""

import hashlib
from pathlib import Path

import pytest

from memqos.catalog.profiles import load_profile, profile_names
from memqos.vm.image.recipe import ENVIRONMENT, Mirror, extract_arguments, mmdebstrap_arguments

HERE = Path(__file__).parent


def laid_out(word):
    """A word of a command; packages one per line, so that each change is one line."""
    option, comma, packages = word.partition("=")
    return [f"{option}=", *packages.split(",")] if comma and option == "--include" else [word]


def recipe(name):
    profile = load_profile(name)
    mirror = Mirror(uri="http://mirror.example/debian", keyring="/keys.gpg")
    foreign = profile.architecture.debian != "amd64"
    argv = mmdebstrap_arguments(
        "mmdebstrap",
        profile,
        mirror,
        mode="root",
        target="/w/native.tar" if foreign else "/w/root.tar",
        overlay="/w/overlay.tar",
        boot="/w",
        stale=False,
        native="amd64" if foreign else "",
    )
    if foreign:
        extracted = "/w/foreign.tar"
        argv[:0] = extract_arguments(
            "mmdebstrap", profile, mirror, mode="root", target=extracted, database="/w/database", stale=False
        )
    legacy = profile.cgroup_v1
    return [
        profile.purpose,
        *(f"{name}={value}" for name, value in ENVIRONMENT.items()),
        *(line for word in argv for line in laid_out(word)),
        *(f"file {file.mode:o} {file.path} {hashlib.sha256(file.content).hexdigest()[:8]}" for file in profile.files),
        *(f"masked {unit}" for unit in profile.masked_units),
        *(f"enabled {unit}" for unit in profile.enabled_units),
        *(
            f"container image of {program.name}: {' '.join(file.name for file in program.sources)}"
            for program in profile.programs
        ),
        f"kernel arguments: {' '.join(profile.kernel_arguments)}",
        f"cgroup v1: {' '.join(legacy.kernel_arguments) or f'refused, since {legacy.refused}'}",
    ]


@pytest.mark.parametrize("name", profile_names())
def test_each_profiles_recipe_is_the_golden_one(name):
    assert "\n".join(recipe(name)) + "\n" == (HERE / f"{name}.txt").read_text()


def test_the_profiles_differ_in_little():
    """One recipe: two profiles differ only in their suite, their kernel, and containerd's configuration."""
    trixie, forky, backports = (set(recipe(name)) for name in ("trixie", "forky", "trixie-bpo"))
    assert sorted(line.split()[0] for line in trixie - backports) == ["Debian", "linux-image-cloud-amd64"]
    assert sorted(line.split()[0] for line in trixie - forky) == ["Debian", "cgroup", "deb", "file", "trixie"]
