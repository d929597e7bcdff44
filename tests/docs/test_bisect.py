"""The script of the page on bisecting, in a real `git bisect run` with a memqos that only ends as it is told."""

import os
import subprocess

import pytest

from tests.docs.snippets import DOCS, snippets

[SCRIPT] = [one.body for one in snippets(DOCS / "how-to" / "bisect.md") if one.file == "bisect.sh"]

MEMQOS = """\
#!/bin/sh
echo "$@" >>"$ASKED"
exit "$(sed -n 's/^memqos //p' code)"
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in a repository whose memqos and make are ours."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, body in (("memqos", MEMQOS), ("make", "#!/bin/sh\n! grep -q broken code\n")):
        (tools / name).write_text(body)
        (tools / name).chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}", "ASKED": str(tmp_path / "asked"), "HOME": str(tmp_path),
        "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    (tmp_path / "bisect.sh").write_text(SCRIPT)

    def run(*argv):
        return subprocess.run(argv, cwd=repository, env=environment, text=True, capture_output=True, check=False)

    run("git", "init", "--quiet")
    run("git", "config", "user.name", "a")
    run("git", "config", "user.email", "a@example.org")
    run.repository, run.script, run.asked = repository, str(tmp_path / "bisect.sh"), tmp_path / "asked"
    return run


def commit(run, said):
    (run.repository / "code").write_text(said)
    run("git", "add", "code")
    run("git", "commit", "--quiet", "--message", said)
    return run("git", "rev-parse", "HEAD").stdout.strip()


@pytest.mark.parametrize(
    ("memqos", "git"), [(0, 0), (1, 1), (2, 255), (3, 125), (4, 125), (5, 125), (6, 125), (141, 255)]
)
def test_every_exit_code_is_what_the_page_says(run, memqos, git):
    commit(run, f"memqos {memqos}\n")
    assert run("sh", run.script, "limit").returncode == git
    assert "-k limit --runtime oci:runc --runtime-binary ./runc --results bisect/" in run.asked.read_text()


def test_a_commit_that_does_not_build_is_skipped_and_memqos_is_not_asked(run):
    commit(run, "broken")
    assert run("sh", run.script, "limit").returncode == 125
    assert not run.asked.exists()


def test_git_finds_the_commit_between_those_of_which_nothing_is_known(run):
    codes = ["memqos 0\n", "memqos 0\n#\n", "broken\n", "memqos 0\n##\n", "memqos 3\n", "memqos 0\n###\n"]
    codes += ["memqos 1\n", "memqos 4\n", "memqos 1\n#\n", "memqos 1\n##\n"]
    commits = [commit(run, code) for code in codes]
    run("git", "bisect", "start", commits[-1], commits[0])
    done = run("git", "bisect", "run", "sh", run.script, "limit and not update")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{commits[6]} is the first bad commit" in done.stdout


def test_an_interrupt_stops_git(run):
    commits = [commit(run, code) for code in ("memqos 0\n", "memqos 2\n", "memqos 2\n#\n", "memqos 1\n")]
    run("git", "bisect", "start", commits[-1], commits[0])
    done = run("git", "bisect", "run", "sh", run.script, "limit")
    assert done.returncode != 0
    assert len(run.asked.read_text().splitlines()) == 1
