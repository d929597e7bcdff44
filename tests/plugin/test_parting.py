"""--shard and --last-failed: a part of the cases, the same with workers and without."""

import json
import os
import re

import pytest

from memqos.bundles.merging import merge
from memqos.bundles.reading import read_results
from memqos.plugin.results import durations

pytest_plugins = ["pytester"]

CASES = """
@pytest.mark.claim("demo/one")
@pytest.mark.parametrize("number", range(7))
def test_it(qos_evidence, number):
    qos_evidence.settle(finding("deviates" if number in {1, 4} else "conforms"))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("MEMQOS_CACHE", str(tmp_path / "cache"))


def bundle(pytester, folder="out"):
    return json.loads((pytester.path / folder / "bundle.json").read_text())


def numbers(found):
    return sorted(int(re.search(r"\[(\d)\]", one["id"])[1]) for one in found["results"])


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_shards_cover_all_cases_without_overlap(suite, run, pytester, workers):
    suite(CASES)
    parts, shards = [], []
    for number in (1, 2, 3):
        run(f"--memqos-shard={number}/3", *workers)
        parts += numbers(bundle(pytester))
        shards.append(bundle(pytester)["shard"])
        assert bundle(pytester)["counts"]["not_run"] == 0
    assert sorted(parts) == list(range(7))
    assert [(one["number"], one["of"], one["cases"]) for one in shards] == [(1, 3, 7), (2, 3, 7), (3, 3, 7)]
    assert len({one["division"] for one in shards}) == 1


def test_shards_go_by_the_time_that_cases_took(suite, run, pytester, tmp_path):
    times = {f"demo/test_demo.py::test_it[{n}]": 60.0 if n == 6 else 10.0 for n in range(7)}
    (tmp_path / "cache/durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))
    suite(CASES)
    result = run("--memqos-shard=1/2")
    assert numbers(bundle(pytester)) == [6]
    division = bundle(pytester)["shard"]["division"]
    assert f"shard 1 of 2, of 7 cases; division {division}" in result.outlines
    run("--memqos-shard=2/2")
    assert numbers(bundle(pytester)) == [0, 1, 2, 3, 4, 5]


def test_shards_use_durations_of_other_systems_as_a_fallback(suite, run, pytester, tmp_path):
    times = {f"demo/test_demo.py::test_it[{n}-bookworm]": 60.0 if n == 6 else 10.0 for n in range(7)}
    (tmp_path / "cache/durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))
    suite(CASES)
    run("--memqos-shard=1/2")
    assert numbers(bundle(pytester)) == [6]


def test_a_part_leaves_the_times_as_they_are_for_the_next_one(suite, run, monkeypatch):
    kept = []
    monkeypatch.setattr(durations, "keep_durations", lambda results, **_: kept.append(results))
    suite(CASES)
    run("--memqos-shard=1/2")
    assert kept == []
    run()
    assert len(kept) == 1


def keep_times(cache, longest):
    times = {f"demo/test_demo.py::test_it[{n}]": 60.0 if n == longest else 10.0 for n in range(7)}
    (cache / "durations.json").write_text(json.dumps({"schema": "memqos-durations/1", "seconds": times}))


def test_parts_use_the_same_durations_despite_concurrent_runs(suite, run, pytester, tmp_path):
    """Two cases were in no part: another run on the host had stored other durations in between."""
    suite(CASES)
    keep_times(tmp_path / "cache", longest=6)
    run("--memqos-shard=1/2")
    assert numbers(bundle(pytester)) == [6]
    keep_times(tmp_path / "cache", longest=0)
    run("--memqos-shard=2/2")
    assert numbers(bundle(pytester)) == [0, 1, 2, 3, 4, 5]


def test_parts_that_began_without_times_go_on_without(suite, run, pytester, tmp_path):
    suite(CASES)
    run("--memqos-shard=1/2")
    first = numbers(bundle(pytester))
    keep_times(tmp_path / "cache", longest=0)
    run("--memqos-shard=2/2")
    assert sorted(first + numbers(bundle(pytester))) == [0, 1, 2, 3, 4, 5, 6]


def test_parts_that_begin_half_a_day_later_divide_by_the_times_of_then(suite, run, pytester, tmp_path):
    suite(CASES)
    keep_times(tmp_path / "cache", longest=6)
    run("--memqos-shard=1/2")
    keep_times(tmp_path / "cache", longest=0)
    file = tmp_path / "cache/durations-of-shards.json"
    earlier = file.stat().st_mtime - 12 * 3600
    os.utime(file, (earlier, earlier))
    run("--memqos-shard=1/2")
    assert numbers(bundle(pytester)) == [0]


def test_times_of_parts_that_are_damaged_are_set_aside_anew(suite, run, pytester, tmp_path):
    suite(CASES)
    (tmp_path / "cache/durations-of-shards.json").write_text('{"schema": "memqos-dur')
    keep_times(tmp_path / "cache", longest=6)
    run("--memqos-shard=1/2")
    keep_times(tmp_path / "cache", longest=0)
    run("--memqos-shard=2/2")
    assert numbers(bundle(pytester)) == [0, 1, 2, 3, 4, 5]


def test_without_a_writable_cache_parts_use_the_stored_durations(suite, run, pytester, tmp_path):
    suite(CASES)
    keep_times(tmp_path / "cache", longest=6)
    (tmp_path / "cache/durations-of-shards.json").mkdir()
    run("--memqos-shard=1/2")
    assert numbers(bundle(pytester)) == [6]


def test_a_shard_is_a_part_of_the_selection(suite, run, pytester):
    suite(CASES)
    run("--memqos-shard=1/2", "-k", "0 or 1")
    assert bundle(pytester)["shard"]["cases"] == 2
    assert numbers(bundle(pytester)) == [0]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_a_usage_error(suite, run, text):
    suite(CASES)
    result = run(f"--memqos-shard={text}")
    assert result.ret == 4
    assert f"'{text}' is not a part of several, such as 2/5" in result.stderr.str()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_failed_is_run_again_from_the_folder_that_was_named(suite, run, pytester, workers):
    suite(CASES)
    run()
    assert run("--memqos-last-failed", *workers).ret == 1
    assert numbers(bundle(pytester)) == [1, 4]
    suite(CASES.replace("{1, 4}", "{4}"))
    run("--memqos-last-failed", *workers)
    assert numbers(bundle(pytester)) == [1, 4]
    run("--memqos-last-failed", *workers)
    assert numbers(bundle(pytester)) == [4]


def test_without_a_folder_it_is_the_run_that_was_last(suite, run, pytester):
    suite(CASES)
    for folder, body in (("results/b", CASES), ("results/a", CASES.replace("{1, 4}", "{2}"))):
        suite(body)
        pytester.runpytest_subprocess("suites", f"--memqos-results={folder}")
    pytester.runpytest_subprocess("suites", "--memqos-results=new", "--memqos-last-failed")
    assert numbers(bundle(pytester, "new")) == [2]


def test_there_has_to_be_an_earlier_run(suite, run):
    suite(CASES)
    result = run("--memqos-last-failed")
    assert result.ret == 4
    assert "found no results of an earlier run" in result.stderr.str()


def test_something_has_to_have_failed(suite, run):
    suite(CASES.replace("{1, 4}", "set()"))
    run()
    result = run("--memqos-last-failed")
    assert result.ret == 4
    assert "nothing failed in " in result.stderr.str()


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_what_failed_has_to_be_among_the_cases(suite, run, workers):
    suite(CASES)
    run()
    suite(CASES.replace("test_it", "test_other"))
    result = run("--memqos-last-failed", *workers)
    assert result.ret == 4
    said = result.stderr.str() + result.stdout.str()
    assert "this run contains none of the 2 cases that failed last time." in said


def test_what_the_default_leaves_out_is_run_again_if_it_failed(suite, run, pytester):
    suite(CASES.replace('@pytest.mark.claim("demo/one")', '@pytest.mark.more\n@pytest.mark.claim("demo/one")'))
    run("--memqos-all")
    run("--memqos-last-failed")
    assert numbers(bundle(pytester)) == [1, 4]


def test_a_baseline_accepts_until_its_day(suite, run, pytester):
    entry = '[[accepted]]\nclaim = "demo/one"\nknob = "memory.high"\nuntil = DAY\nreason = "issue 7"\n'
    suite(CASES)
    (pytester.path / "baseline.toml").write_text(entry.replace("DAY", "9999-12-31"))
    accepted = run("--memqos-baseline=baseline.toml")
    assert accepted.ret == 0
    assert bundle(pytester)["counts"]["tests"]["known"] == 2
    accepted.stdout.fnmatch_lines(["known deviations:", "*accepted until 9999-12-31: issue 7"])

    (pytester.path / "baseline.toml").write_text(entry.replace("DAY", "2020-01-01"))
    over = run("--memqos-baseline=baseline.toml")
    assert over.ret == 1
    over.stdout.fnmatch_lines(["*seen     baseline: accepted until 2020-01-01, which is over: issue 7"])

    (pytester.path / "baseline.toml").write_text("[[accepted]]\n")
    assert run("--memqos-baseline=baseline.toml").ret == 4


def test_merged_shards_are_complete_and_a_missing_one_is_reported(suite, run, pytester):
    suite(CASES)
    parts = []
    for number in (1, 2, 3):
        run(f"--memqos-shard={number}/3")
        parts.append(read_results((pytester.path / "out").rename(pytester.path / f"part-{number}")))
    whole = merge(parts, pytester.path / "whole").bundle
    assert (len(whole.results), whole.exit_code, whole.not_run) == (7, 1, 0)
    assert whole.merged.contradictions == ()
    assert merge(parts[:2], pytester.path / "less").bundle.merged.contradictions == ("of 3 shards 3 is missing",)
