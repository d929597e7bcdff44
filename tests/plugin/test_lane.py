"""Which machine a module or a test gets, with made-up stations: nothing is booted."""

import contextlib
import json
from types import SimpleNamespace

import pytest

from memqos.config.settings import resolve
from memqos.config.systems import SystemKey
from memqos.errors import DamagedOriginError, MachineError, MachineryError, UnfitFileError, UsageError
from memqos.laboratory.evidence import Folder
from memqos.model.node import CgroupDriver
from memqos.place.base import KeptPlace
from memqos.place.fake import FakePlace
from memqos.plugin.keys import INTERRUPTION, LANE, SETTINGS_KEY
from memqos.plugin.machines import lane as module
from memqos.plugin.machines.lane import Lane

TRIXIE = SystemKey("trixie", "two-numa-nodes", "containerd+runc", CgroupDriver.SYSTEMD)
FORKY = SystemKey("forky", "two-numa-nodes", "containerd+runc", CgroupDriver.SYSTEMD)
ONE_NUMA_NODE = TRIXIE._replace(topology="one-numa-node")
TRIXIE_CRUN = SystemKey("trixie", "two-numa-nodes", "containerd+crun", CgroupDriver.CGROUPFS)


class World:
    """Opens stations, numbers them, and records what was opened, closed and printed."""

    def __init__(self):
        self.events = []
        self.told = []
        self.refuses = set()
        self.damaged = set()
        self.chosen = None
        self.there = False
        self.numbers = iter(range(100))

    def choose(self, _config, place):
        self.chosen = self.chosen or place
        return self.chosen is place

    @contextlib.contextmanager
    def open_station(self, _config, key):
        profile = key[0]
        if key in self.refuses:
            self.events.append(f"refused {profile}")
            raise MachineError("it does not boot.")
        if key in self.damaged:
            self.damaged.remove(key)
            self.events.append(f"found {profile} damaged")
            raise DamagedOriginError("its runtime was killed by SIGILL.")
        name = f"{profile}-{next(self.numbers)}"
        self.events.append(f"opened {name}")
        yield Station(name, key)
        self.events.append(f"closed {name}")

    @contextlib.contextmanager
    def turned_station(self, _config, station, key):
        if key in self.refuses:
            raise MachineError("its runtime does not answer.")
        name = f"{station.id}+{key.runtime}"
        self.events.append(f"turned to {name}")
        yield Station(name, key, station.place)
        self.events.append(f"left {name}")


class Station:
    def __init__(self, name, key, place=None):
        self.id, self.key = name, key
        self.left = ()
        self.place = place or FakePlace()
        self.place.is_disposable = True
        self.node = SimpleNamespace(leftovers=self.leftovers)

    def leftovers(self):
        if isinstance(self.left, Exception):
            raise self.left
        return self.left


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(module, "open_station", made.open_station)
    monkeypatch.setattr(module, "turned_station", made.turned_station)
    monkeypatch.setattr(module, "are_of_one_machine", lambda _, one, other: one.place == other.place and not made.there)
    monkeypatch.setattr(module, "is_for_keeps", lambda _, place: place is made.chosen)
    monkeypatch.setattr(module, "choose", made.choose)
    monkeypatch.setattr(module, "Messenger", lambda _: SimpleNamespace(line=made.told.append))
    return made


def test_a_module_that_leaves_the_machine_as_it_was_hands_it_on(world):
    with Lane(None) as lane:
        for _ in range(3):
            with lane.opened(TRIXIE) as station:
                assert lane.station is station
            assert lane.station is None
    assert world.events == ["opened trixie-0", "closed trixie-0"]
    assert world.told == []


def test_another_machine_takes_its_place(world):
    with Lane(None) as lane:
        for key in (TRIXIE, FORKY, TRIXIE):
            with lane.opened(key):
                pass
    assert [event for event in world.events if event.startswith("opened")] == [
        "opened trixie-0",
        "opened forky-1",
        "opened trixie-2",
    ]


def test_one_machine_serves_the_systems_that_it_has_one_after_another(world):
    with Lane(None) as lane:
        for key in (TRIXIE, TRIXIE_CRUN, TRIXIE, FORKY):
            with lane.opened(key) as station:
                assert station.key == key
    assert world.events == [
        "opened trixie-0",
        "turned to trixie-0+containerd+crun",
        "left trixie-0+containerd+crun",
        "turned to trixie-0+containerd+crun+containerd+runc",
        "left trixie-0+containerd+crun+containerd+runc",
        "closed trixie-0",
        "opened forky-1",
        "closed forky-1",
    ]


def test_what_one_system_spoils_no_other_one_gets(world):
    with Lane(None) as lane:
        with lane.opened(TRIXIE) as station:
            mark(station)
        with lane.opened(TRIXIE_CRUN) as station:
            assert station.id == "trixie-1"


def test_a_system_that_cannot_be_had_takes_no_other_one_with_it(world):
    world.refuses.add(TRIXIE_CRUN)
    with Lane(None) as lane:
        for _ in range(2):
            with lane.opened(TRIXIE):
                pass
            with pytest.raises(MachineError, match="its runtime does not answer"), lane.opened(TRIXIE_CRUN):
                pytest.fail("it was opened")
    assert [event for event in world.events if event.startswith("opened")] == ["opened trixie-0", "opened trixie-1"]


def test_an_existing_machine_is_prepared_for_one_system_at_a_time(world):
    world.there = True
    with Lane(None) as lane, lane.opened(TRIXIE) as station:
        station.place.is_disposable = False
        with lane.fresh(TRIXIE_CRUN) as fresh:
            assert fresh.key == TRIXIE_CRUN
            assert world.events == ["opened trixie-0", "closed trixie-0", "opened trixie-1"]


def mark(station):
    station.place.spoil("call of test_it ended in an error")


def leave_something(station):
    station.left = ("/kubepods.slice", "/kubepods.slice/pod1.slice")


def die(station):
    station.place.break_down(MachineError("QEMU ended."))


def fall_silent(station):
    station.left = MachineryError("the connection was lost.")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (mark, "trixie-0 is given up: call of test_it ended in an error"),
        (
            leave_something,
            "trixie-0 is given up: it has leftover cgroups: /kubepods.slice, /kubepods.slice/pod1.slice",
        ),
        (die, "trixie-0 is given up: it is broken"),
        (fall_silent, "trixie-0 is given up: the connection was lost."),
    ],
)
def test_a_changed_machine_is_given_up(world, harm, told):
    with Lane(None) as lane:
        with lane.opened(TRIXIE) as station:
            harm(station)
        with lane.opened(TRIXIE) as next_one:
            assert next_one is not station
    assert world.events == ["opened trixie-0", "closed trixie-0", "opened trixie-1", "closed trixie-1"]
    assert world.told == [told]


def test_a_test_s_own_machine_is_the_lane_s_while_it_runs_and_gone_afterwards(world):
    with Lane(None) as lane, lane.opened(TRIXIE) as station:
        with lane.fresh(TRIXIE) as fresh:
            assert lane.station is fresh
        assert lane.station is station
        assert world.events == ["opened trixie-0", "opened trixie-1", "closed trixie-1"]


def test_on_an_existing_machine_a_test_gets_that_machine(world):
    with Lane(None) as lane, lane.opened(TRIXIE) as station:
        station.place.is_disposable = False
        with lane.fresh(TRIXIE) as fresh:
            assert fresh is station
        assert lane.station is station
    assert world.events == ["opened trixie-0", "closed trixie-0"]


def test_a_machine_that_does_not_come_up_is_tried_once_and_its_failure_repeated(world):
    world.refuses.add(TRIXIE)
    with Lane(None) as lane:
        with pytest.raises(MachineError) as first, lane.opened(TRIXIE):
            pytest.fail("it was opened")
        with pytest.raises(MachineError) as again, lane.fresh(TRIXIE):
            pytest.fail("it was opened")
        with lane.opened(FORKY):
            pass
    assert again.value is first.value
    assert world.events == ["refused trixie", "opened forky-0", "closed forky-0"]


def test_a_machine_that_came_up_before_is_tried_again(world):
    with Lane(None) as lane:
        with lane.fresh(TRIXIE):
            world.refuses.add(TRIXIE)
        with pytest.raises(MachineError), lane.fresh(TRIXIE):
            pytest.fail("it was opened")
        world.refuses.clear()
        with lane.fresh(TRIXIE) as station:
            assert station.id == "trixie-1"


def test_a_machine_with_a_damaged_checkpoint_is_retried_once(world):
    world.damaged.add(TRIXIE)
    with Lane(None) as lane, lane.opened(TRIXIE) as station:
        assert station.id == "trixie-0"
    assert world.events == ["found trixie damaged", "opened trixie-0", "closed trixie-0"]


def test_a_module_needs_another_machine_when_its_own_is_dead_or_spoilt(world):
    with Lane(None) as lane:
        assert lane.lost == ""
        lane.spoil("nothing is open.")
        with lane.opened(TRIXIE) as station:
            assert lane.lost == ""
            assert not lane.has_given_up(station.place)
            lane.spoil("its checkpoint is damaged")
            assert (lane.has_given_up(station.place), lane.has_given_up(FakePlace())) == (True, False)
            assert lane.lost == "its checkpoint is damaged"
            station.place.break_down(MachineError("QEMU ended with status -9.\nThe console said nothing."))
            assert lane.lost == "QEMU ended with status -9."
        assert world.told == ["trixie-0 is given up: it is broken"]
        with lane.opened(TRIXIE):
            assert lane.lost == ""


def test_a_lane_closes_its_machine_when_a_test_raises(world):
    with pytest.raises(KeyboardInterrupt), Lane(None) as lane, lane.opened(TRIXIE):
        raise KeyboardInterrupt
    assert world.events[-1] == "closed trixie-0"


def test_a_rejected_program_is_not_retried_on_other_topologies(world, monkeypatch):
    """A machine of each might have to be booted first."""
    refused = UnfitFileError("'my-runc' does not run in the machine.", where="--runtime-binary")

    def open_station(_config, key):
        world.events.append(f"tried {'/'.join(key.place)}")
        raise refused

    monkeypatch.setattr(module, "open_station", open_station)
    with Lane(None) as lane:
        for key in (TRIXIE, ONE_NUMA_NODE, TRIXIE, FORKY):
            with pytest.raises(UsageError) as told, lane.opened(key):
                pytest.fail("it was opened")
            assert told.value is refused
    assert world.events == ["tried trixie/two-numa-nodes", "tried forky/two-numa-nodes"]


def test_a_rejected_topology_does_not_block_others(world, monkeypatch):
    def open_station(_config, key):
        world.events.append(key[1])
        raise UsageError("it has no dies.", where="--topology")

    monkeypatch.setattr(module, "open_station", open_station)
    with Lane(None) as lane:
        for key in (TRIXIE, ONE_NUMA_NODE):
            with pytest.raises(UsageError), lane.opened(key):
                pytest.fail("it was opened")
    assert world.events == ["two-numa-nodes", "one-numa-node"]


def test_a_machine_to_be_kept_is_not_used_any_more(world):
    with Lane(None) as lane:
        with lane.opened(TRIXIE) as station:
            lane.keep(station)
            assert lane.lost == "it is kept with the pods of a failed test"
        assert world.told == ["trixie-0 is given up: it is kept, because a test failed on it"]
        assert world.events == ["opened trixie-0", "closed trixie-0"]
        with lane.opened(TRIXIE) as station:
            lane.keep(station)
            assert lane.lost == ""


def test_keeping_one_tests_machine_leaves_the_modules_machine_in_use(world):
    with Lane(None) as lane, lane.opened(TRIXIE):
        with lane.fresh(TRIXIE) as station:
            lane.keep(station)
        assert lane.lost == ""
    assert world.told == []


class Config(SimpleNamespace):
    """The part of pytest's configuration that keeping a machine uses."""

    def __init__(self, *, keep_vm=True, **given):
        settings = resolve({"keep_vm": keep_vm, **given}, {})
        super().__init__(stash={SETTINGS_KEY: settings, INTERRUPTION: SimpleNamespace(came=False)})


def test_the_machine_of_the_first_failure_is_chosen_and_no_other():
    config, first, second = Config(), FakePlace(), FakePlace()
    assert module.lingers(config)
    assert not module.leaves(config, first)
    assert module.choose(config, first)
    assert not module.choose(config, second)
    assert not module.lingers(config)
    assert (module.leaves(config, first), module.leaves(config, second)) == (True, False)


def test_nothing_is_kept_without_the_option():
    config, place = Config(keep_vm=False), FakePlace()
    assert not module.lingers(config)
    assert not module.choose(config, place)
    assert not module.leaves(config, place)


@pytest.mark.parametrize(("is_disposable", "came"), [(True, True), (True, False), (False, True)])
def test_after_a_signal_nothing_is_removed_from_a_disposable_machine(is_disposable, came):
    """Leftovers on an existing machine are removed all the same."""
    config, place = Config(keep_vm=False), FakePlace()
    config.stash[INTERRUPTION].came, place.is_disposable = came, is_disposable
    assert module.leaves(config, place) is (is_disposable and came)


@pytest.mark.parametrize("is_disposable", [True, False])
def test_nothing_is_removed_from_a_disposable_machine_that_is_given_up(is_disposable):
    """The timeout of a failed removal would be spent once more."""
    config, place = Config(keep_vm=False), FakePlace()
    place.is_disposable = is_disposable
    config.stash[LANE] = SimpleNamespace(has_given_up=lambda one: one is place)
    assert module.leaves(config, place) is is_disposable
    assert not module.leaves(config, FakePlace())


def test_an_existing_machine_is_not_kept():
    config, place = Config(target="ssh://root@node7"), FakePlace()
    assert not module.lingers(config)
    assert not module.choose(config, place)


def test_if_the_kept_machine_breaks_the_next_failure_is_kept():
    config, first, second = Config(), FakePlace(), FakePlace()
    module.choose(config, first)
    first.break_down(MachineError("QEMU ended."))
    assert module.leaves(config, first)
    module.keep_chosen(config, second, None)
    assert not module.lingers(config)
    module.keep_chosen(config, first, None)
    assert module.choose(config, second)


def test_a_kept_machine_is_noted_by_the_name_that_enters_it(monkeypatch, tmp_path):
    kept = KeptPlace(
        name="kept-ab",
        machine="trixie-two-numa-nodes",
        enter="memqos vm shell kept-ab",
        end="memqos vm rm kept-ab",
        document={"name": "kept-ab", "guard": 1},
    )
    told = []
    monkeypatch.setattr(module, "Messenger", lambda _: SimpleNamespace(line=told.append))
    config, place = Config(), FakePlace()
    monkeypatch.setattr(place, "keep", lambda: kept)
    module.choose(config, place)
    module.keep_chosen(config, place, Folder(tmp_path))
    assert json.loads((tmp_path / "kept.json").read_text())["name"] == "kept-ab"
    [line] = told
    assert line == (
        "trixie-two-numa-nodes keeps running as kept-ab, with the pods of the failure: `memqos vm shell kept-ab` "
        "enters it, `memqos vm rm kept-ab` ends it"
    )
