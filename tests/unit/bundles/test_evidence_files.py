"""What machines on other hosts say of themselves reaches the results folder, and leads nowhere else."""

from memqos.bundles.files import keep_machine_files, machine_files, machines


def test_what_is_told_of_machines_elsewhere_is_kept(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "machines" / "gw0-0").mkdir(parents=True)
    (there / "machines" / "gw0-0" / "machine.json").write_text('{"id": "gw0-0"}')
    (there / "machines" / "gw0-0" / "timing.json").write_text('{"create": 1}')
    (there / "machines" / "gw0-0" / "other.json").write_text("{}")

    keep_machine_files(here, machine_files(there))

    assert machines(here) == [{"id": "gw0-0", "timing": {"create": 1}}]
    assert sorted(file.name for file in here.glob("machines/*/*")) == ["machine.json", "timing.json"]


def test_nothing_that_is_there_is_replaced_and_nothing_outside_is_written(tmp_path):
    folder = tmp_path / "out"
    (folder / "machines" / "gw0-0").mkdir(parents=True)
    (folder / "machines" / "gw0-0" / "machine.json").write_text('{"id": "ours"}')

    keep_machine_files(folder, {"gw0-0/machine.json": "{}", "gw1-0/../../../machine.json": '{"id": "led out"}'})

    assert machines(folder) == [{"id": "ours"}, {"id": "led out"}]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
