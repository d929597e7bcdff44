"""The contract of the place port, for the fake and for broken adapters. tests/vm checks real machines."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from memqos.errors import MachineError, MachineryError
from memqos.place.base import PlaceState, Sources
from memqos.place.contract import PlaceCase, check_place_contract
from memqos.place.fake import FAKE_RUNTIME, FakePlace
from memqos.runtime.fake import FakeRuntime


@contextlib.contextmanager
def case(kind: type[FakePlace]) -> Iterator[PlaceCase]:
    place = kind()

    def lose() -> None:
        place.target.lose(MachineryError("the connection is gone."))
        place.break_down(MachineError("the machine was switched off."))

    yield PlaceCase(place=place, lose=lose)


def test_the_fake() -> None:
    check_place_contract(lambda: case(FakePlace))


class ToldOfAnother(FakePlace):
    def __init__(self) -> None:
        super().__init__()
        self.facts = dataclasses.replace(self.facts, node=dataclasses.replace(self.facts.node, kernel="6.1"))


class OffersUnderAnotherName(FakePlace):
    @property
    def runtimes(self):  # type: ignore[no-untyped-def]
        return {"another": super().runtimes[FAKE_RUNTIME]}


class Mistaken(FakeRuntime):
    @property
    def name(self) -> str:
        return "another"


class ConnectsToAnother(FakePlace):
    def runtime(self, driver):  # type: ignore[no-untyped-def]
        return Mistaken(self.cgroups, driver=driver)


class TakesAnyName(FakePlace):
    @contextlib.contextmanager
    def connect(self, runtime, driver, *, record, deadline):  # type: ignore[no-untyped-def]  # noqa: ARG002
        yield self.runtime(driver)


class HasLostItsConsole(FakePlace):
    def __init__(self) -> None:
        super().__init__()
        self.evidence = Sources(files=(Path("/nonexistent/serial.log"),))


class LentDirty(FakePlace):
    def __init__(self) -> None:
        super().__init__()
        self.spoil("somebody was here before")


class ForgetsTheFirstReason(FakePlace):
    def spoil(self, reason: str) -> None:
        self.health.spoilt = reason


class TellsAnotherStoryEachTime(FakePlace):
    times = 0

    def check_alive(self) -> None:
        self.times += 1
        if self.condition is PlaceState.BROKEN:
            raise MachineError(f"it failed for the {self.times}th time.")


class NeverHearsOfItsLoss(FakePlace):
    def break_down(self, error: MachineryError) -> None:
        pass


class LooksWellWhenLost(FakePlace):
    @property
    def condition(self) -> PlaceState:
        return PlaceState.SPOILT if self.spoilt else PlaceState.SOUND


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (ToldOfAnother, "facts are the target's"),
        (OffersUnderAnotherName, "offered by its name"),
        (ConnectsToAnother, "asked for fake, it connects to that"),
        (TakesAnyName, "a runtime that is not offered is a UsageError"),
        (HasLostItsConsole, r"serial\.log is not"),
        (LentDirty, "sound when it is lent"),
        (ForgetsTheFirstReason, "the first reason stays"),
        (NeverHearsOfItsLoss, "examine reports a lost place"),
        (TellsAnotherStoryEachTime, "a failure is repeated as it was"),
        (LooksWellWhenLost, "a place that is lost is broken"),
    ],
)
def test_a_broken_adapter_gets_the_promise_it_breaks(kind: type[FakePlace], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_place_contract(lambda: case(kind))
