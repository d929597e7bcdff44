"""Which commit is released, whether it can be, and which release an upgrade starts from: in repositories made here."""

import subprocess

import pytest

from tools.release.source import ReleaseError, Source, changelog_section, problems

CHANGELOG = "# Changelog\n\n## 0.2.0 - 2026-12-01\n\n- new\n\n## 0.1.0\n\nThe first.\n"


class Repository:
    """A repository with a file per commit that a test writes."""

    def __init__(self, top):
        self.top = top
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")

    def git(self, *words):
        done = subprocess.run(["git", *words], cwd=self.top, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, version, **files):
        """A commit of this version; files by name, with __ for a slash."""
        written = {"harness/memqos/version.py": f'__version__ = "{version}"\n'}
        written |= {name.replace("__", "/").replace("_md", ".md"): text for name, text in files.items()}
        for name, text in written.items():
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", version)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("GIT_DIR", raising=False)
    return Repository(tmp_path)


def whole(repository, version="0.2.0", changelog=CHANGELOG):
    return repository.commit(version, CHANGELOG_md=changelog, **{f"docs__releases__{version}_md": "notes"})


def test_a_whole_commit_can_be_released(repository):
    commit = whole(repository)
    source = Source.of(repository.top)

    assert (source.commit, source.version, source.tag) == (commit, "0.2.0", "")
    assert list(problems(source)) == []


def test_its_tag_is_known_if_it_is_on_the_commit(repository):
    whole(repository)
    repository.git("tag", "v0.2.0")

    assert Source.of(repository.top).tag == "v0.2.0"
    assert list(problems(Source.of(repository.top))) == []

    repository.commit("0.2.0", more="text")
    assert list(problems(Source.of(repository.top))) == [
        "the tag v0.2.0 is on another commit: raise the version in harness/memqos/version.py"
    ]


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        ("# Changelog\n\n## Unreleased\n\n- new\n", "CHANGELOG.md has no section '## 0.2.0 - DATE'"),
        ("## 0.2.0\n\n- new\n", "the heading '## 0.2.0' has no date"),
        ("## 0.2.0 - 2026-12-01\n\n## 0.1.0\n\n- old\n", "the section of 0.2.0 is empty"),
        ("## Unreleased\n\n- later\n\n## 0.2.0 - 2026-12-01\n\n- new\n", "move the entries of 'Unreleased'"),
    ],
)
def test_a_changelog_that_does_not_fit_is_named(repository, changelog, said):
    whole(repository, changelog=changelog)

    assert [problem for problem in problems(Source.of(repository.top)) if said in problem]


def test_missing_notes_are_named(repository):
    repository.commit("0.2.0", CHANGELOG_md=CHANGELOG)

    assert list(problems(Source.of(repository.top))) == [
        "docs/releases/0.2.0.md is missing: write the release notes there"
    ]


def test_a_section_ends_where_the_next_begins():
    assert changelog_section(CHANGELOG, "0.2.0") == ("2026-12-01", "- new")
    assert changelog_section(CHANGELOG, "0.1.0") == ("", "The first.")
    with pytest.raises(ReleaseError, match=r"no section '## 0\.3\.0"):
        changelog_section(CHANGELOG, "0.3.0")


def test_the_release_before_is_the_last_tag_of_another_version(repository):
    repository.commit("0.1.0")
    tagged = repository.commit("0.1.0", a="1")
    repository.git("tag", "v0.1.0")
    repository.commit("0.1.0", a="2")
    repository.commit("0.2.0")
    repository.git("tag", "v0.2.0")

    found = Source.of(repository.top).previous()

    assert (found.commit, found.version, found.tag) == (tagged, "0.1.0", "v0.1.0")


def test_versions_of_tags_are_compared_as_numbers(repository):
    for version in ("0.9.0", "0.10.0", "0.11.0"):
        repository.commit(version)
        repository.git("tag", f"v{version}")

    assert Source.of(repository.top).previous().version == "0.10.0"


def test_without_a_tag_it_is_the_last_commit_of_another_version(repository):
    repository.commit("0.1.0")
    last = repository.commit("0.1.0", a="1")
    repository.commit("0.2.0")
    repository.commit("0.2.0", a="2")

    found = Source.of(repository.top).previous()

    assert (found.commit, found.version, found.tag) == (last, "0.1.0", "")


def test_there_is_none_before_the_first_version(repository):
    repository.commit("0.1.0")

    assert Source.of(repository.top).previous() is None


def test_a_shallow_clone_says_what_it_lacks(repository, tmp_path):
    repository.commit("0.1.0")
    repository.commit("0.2.0")
    repository.commit("0.2.0", a="1")
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.top}", str(clone))

    with pytest.raises(ReleaseError, match="git fetch --unshallow --tags"):
        Source.of(clone).previous()


def test_only_what_is_committed_is_exported(repository, tmp_path):
    whole(repository)
    (repository.top / "left-over.py").write_text("")
    out = tmp_path / "out"
    out.mkdir()

    Source.of(repository.top).export(out)

    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "CHANGELOG.md", "docs/releases/0.2.0.md", "harness/memqos/version.py",
    ]  # fmt: skip


def test_a_folder_that_is_no_repository_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(ReleaseError, match="not a git repository"):
        Source.of(tmp_path)
