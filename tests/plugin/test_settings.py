"""Settings from files: in plain pytest, on workers, and in a run's header and bundle."""

import json

import pytest

pytest_plugins = ["pytester"]

ONE = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(2))
def test_it(qos_evidence, number, request):
    from memqos.plugin.keys import SETTINGS_KEY
    settings = request.config.stash[SETTINGS_KEY]
    assert (settings.driver, settings.parallel) == (("cgroupfs",), 3)
    qos_evidence.settle(finding("conforms"))
"""


def settings(pytester):
    return json.loads((pytester.path / "out/bundle.json").read_text())["settings"]


@pytest.mark.parametrize("arguments", [(), ("-n", "1")], ids=["alone", "worker"])
def test_files_are_read_and_their_lines_kept(suite, run, pytester, arguments):
    suite(ONE)
    (pytester.path / "pyproject.toml").write_text('[tool.memqos]\ndriver = "systemd"\nparallel = 3\n')
    with (pytester.path / "suites/pytest.ini").open("a") as stream:
        stream.write("memqos_driver = cgroupfs\n")

    result = run("--strict-config", *arguments)

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["memqos settings: driver=cgroupfs (suites/pytest.ini:3), * parallel=3 (pyproject.toml:3)"]
    )
    assert settings(pytester)["driver"] == {"value": ["cgroupfs"], "origin": "suites/pytest.ini:3"}
    assert settings(pytester)["parallel"] == {"value": 3, "origin": "pyproject.toml:3"}


def test_an_option_and_the_environment_win_over_files(suite, run, pytester, monkeypatch):
    suite(ONE)
    (pytester.path / "pyproject.toml").write_text('[tool.memqos]\ndriver = "systemd"\nparallel = 9\n')
    monkeypatch.setenv("MEMQOS_PARALLEL", "3")

    assert run("--memqos-driver=cgroupfs").ret == 0
    origins = {name: one["origin"] for name, one in settings(pytester).items() if one["origin"] != "default"}
    assert origins == {
        "driver": "--memqos-driver", "parallel": "MEMQOS_PARALLEL", "results": "--memqos-results"
    }  # fmt: skip


def test_what_is_written_in_the_place_of_pytests_file_is_taken(suite, run, pytester):
    suite(ONE)

    assert run("-o", "memqos_driver=cgroupfs", "-o", "memqos_parallel=3").ret == 0
    assert settings(pytester)["parallel"] == {"value": 3, "origin": "-o memqos_parallel"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('drivr = "systemd"', "*pyproject.toml:2: there is no setting 'drivr'. Did you mean 'driver'?*"),
        ('driver = "upstart"', "*pyproject.toml:2: there is no driver 'upstart'.*"),
    ],
)
def test_a_mistake_in_a_file_is_a_usage_error(suite, run, pytester, line, words):
    suite(ONE)
    (pytester.path / "pyproject.toml").write_text(f"[tool.memqos]\n{line}\n")

    result = run()

    assert result.ret == 4
    result.stderr.fnmatch_lines([words])
