"""Evidence of another host reaches the results folder, and leads nowhere else."""

from memqos.bundles.files import evidence_files, keep_evidence


def test_transferred_evidence_is_kept(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "machines" / "gw0-0").mkdir(parents=True)
    (there / "machines" / "gw0-0" / "machine.json").write_text('{"id": "gw0-0"}')
    (there / "tests" / "one").mkdir(parents=True)
    (there / "tests" / "one" / "console.log").write_bytes(b"\xff")
    (there / "tests" / "one" / "link").symlink_to("/etc/passwd")
    (there / "elsewhere").write_text("")

    keep_evidence(here, evidence_files(there))

    kept = {file.relative_to(here).as_posix(): file.read_bytes() for file in here.rglob("*") if file.is_file()}
    assert kept == {"machines/gw0-0/machine.json": b'{"id": "gw0-0"}', "tests/one/console.log": b"\xff"}


def test_existing_files_stay_and_nothing_outside_is_written(tmp_path):
    folder = tmp_path / "out"
    (folder / "machines" / "gw0-0").mkdir(parents=True)
    (folder / "machines" / "gw0-0" / "machine.json").write_text('{"id": "ours"}')

    names = (
        "machines/gw0-0/machine.json",
        "machines/../../out.json",
        "bundle.json",
        "tests//one",
        "/etc/one",
        "tests",
        "tests/a\0/b",
    )
    keep_evidence(folder, dict.fromkeys(names, b"{}"))

    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()] == [
        "out/machines/gw0-0/machine.json"
    ]
    assert (folder / "machines" / "gw0-0" / "machine.json").read_text() == '{"id": "ours"}'
