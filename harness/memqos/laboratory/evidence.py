"""Evidence on disk: folders, the sink of one case, the log of one machine, and the capture of a failure.

Also what a bundle records about the host: its hardware, and the versions of the packages that a run uses.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import platform
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memqos import frame
from memqos.clock import SYSTEM_CLOCK, WAITS, Deadline
from memqos.engine.answer.document import cgroup_document, plan_document
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import MemqosError
from memqos.model.reading import Reading
from memqos.place.base import Place
from memqos.probe.sampler import Look, Spoken
from memqos.report.bundle import Json, as_json
from memqos.report.summary import Timing
from memqos.runtime.base import CallRecord
from memqos.version import __version__

if TYPE_CHECKING:
    from memqos.node.pods.recorder import Weight

__all__ = ["LONGEST", "Folder", "MachineLog", "Sink", "capture", "host", "manifests_text", "versions"]


_CAPTURE_SECONDS = 20.0
_SHARED = ("plan.json", "readings.jsonl", "requests.jsonl", "series.jsonl", "workloads.jsonl")

LONGEST = 64 << 10
"""Bytes. A longer file is named but not kept: it is not a manifest."""

_ORIGIN = re.compile(r"^(?P<file>.+?\.(?:ya?ml|json)):\d+(?:[ ,].*)?$")


class Folder:
    """A folder of evidence, made with its first file. Every line is flushed, so that a kill loses none.

    shared: whether several tests refer to it; its files do not change then.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self.shared = shared
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Ignore later writes: they come from a thread on an abandoned machine while the next attempt runs."""
        with self._lock:
            self._is_closed = True

    def clear(self) -> None:
        """Remove the files of an attempt that does not count."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name: str, value: object) -> None:
        """A value as a JSON file, text or bytes as they are."""
        file = self.path / name
        if not isinstance(value, bytes):
            text = value if isinstance(value, str) else json.dumps(as_json(value), indent=1, ensure_ascii=False) + "\n"
            value = text.encode("utf-8", "backslashreplace")
        with self._lock, _kept(file):
            if self._is_closed:
                return
            self.path.mkdir(parents=True, exist_ok=True)
            file.write_bytes(value)

    def append(self, name: str, value: object) -> None:
        """Append a value as one JSON line."""
        line = _compact(value)
        with self._lock, _kept(self.path / name):
            if self._is_closed:
                return
            self.path.mkdir(parents=True, exist_ok=True)
            with (self.path / name).open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(line)


def _compact(value: object) -> str:
    """A value as one line of JSON; there are thousands of them in a run."""
    return json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":")) + "\n"


@contextlib.contextmanager
def _kept(file: Path) -> Iterator[None]:
    """Turn the host's refusal of a write into an environment error, as it says nothing about the system under test."""
    try:
        yield
    except OSError as error:
        refused = frame.of_the_host(error, where=str(file), next_step="Free some space, or name another --results.")
        raise refused or error from error


class Sink:
    """Takes the evidence of one case, scene or population, and writes each piece to its folder at once.

    Written files survive any failure of the machine.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """Keep a plan and its manifests; for a plan with a requested container, only the plan."""
        document = plan_document(plan)
        if requested is not None:
            document["cgroups"].append(cgroup_document(requested))
        self.folder.write("plan.json", _compact(document))
        if requested is None and (text := manifests_text(document)):
            self.folder.write("manifests.yaml", text)

    def reading(self, reading: Reading) -> None:
        """Keep one more reading."""
        self.folder.append("readings.jsonl", reading)

    def look(self, look: Look) -> None:
        """Keep a change in a watched cgroup."""
        self.folder.append("series.jsonl", look)

    def spoken(self, spoken: Spoken) -> None:
        """Keep a command to a workload, or its answer."""
        self.folder.append("workloads.jsonl", spoken)

    def call(self, record: object) -> None:
        """Keep one request with its reply."""
        self.folder.append("requests.jsonl", record)


class MachineLog:
    """The recorder of one machine: hands each piece of evidence to the sink of the case that it belongs to.

    A case's sink is a context variable (`to`): functions and threads (`memqos.threads`) that the case starts inherit
    it, even if they end after the case. Outside of any case, evidence goes to the sink of the current borrower
    (`lent`), or else to the machine's own sink, `own`. timing, overhead: of the whole machine.
    """

    def __init__(self, own: Sink) -> None:
        self._own = own
        self._lent: list[Sink] = []
        self._passed: ContextVar[tuple[Sink, ...]] = ContextVar("memqos_sinks", default=())
        self.timing = Timing()
        self.overhead: Mapping[str, int] = {}

    @property
    def sink(self) -> Sink:
        """Where evidence goes in this context."""
        return (self._own, *self._lent, *self._passed.get())[-1]

    @contextlib.contextmanager
    def to(self, sink: Sink) -> Iterator[None]:
        """Send this context's evidence to this sink; an inner `to` takes precedence."""
        self._passed.set((*self._passed.get(), sink))
        try:
            yield
        finally:
            # A module's fixture may end after the test that requested it first.
            self._passed.set(tuple(one for one in self._passed.get() if one is not sink))

    @contextlib.contextmanager
    def lent(self, sink: Sink) -> Iterator[None]:
        """Until the context ends, send evidence that belongs to no case to this sink, from any thread and context."""
        self._lent.append(sink)
        try:
            yield
        finally:
            self._lent.remove(sink)

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """See `Sink.plan`."""
        self.sink.plan(plan, requested=requested)

    def reading(self, reading: Reading) -> None:
        """See `Sink.reading`."""
        self.sink.reading(reading)

    def weight(self, weight: Weight) -> None:
        """Keep the memory use of the runtime itself."""
        self.overhead = weight.document()

    def look(self, look: Look) -> None:
        """See `Sink.look`."""
        self.sink.look(look)

    def spoken(self, spoken: Spoken) -> None:
        """See `Sink.spoken`."""
        self.sink.spoken(spoken)

    def call(self, record: object) -> None:
        """Keep one request with its reply and duration."""
        if isinstance(record, CallRecord):
            now = SYSTEM_CLOCK.now()
            WAITS.add(f"the runtime answers {record.method}", began=now - record.seconds, ended=now)
            if not record.error:
                self.timing.add(record.method, record.seconds)
        self.sink.call(record)


def capture(place: Place, folder: Folder, *, used: Folder) -> None:
    """Gather a failure's evidence in the test's own folder.

    used: the evidence folder of the tested population; its files are hard-linked where the file system allows it. If
    the machine no longer answers, the file holds the error instead.
    """
    sources = place.evidence
    kept_in = used if used.shared else folder
    for name, argv in sources.commands.items():
        if kept_in is folder or not (kept_in.path / name).exists():
            kept_in.write(name, _said(place, argv))
    with _kept(folder.path):
        folder.path.mkdir(parents=True, exist_ok=True)
        for source in [*(used.path / name for name in (*_SHARED, *sources.commands)), *sources.files]:
            _share(source, folder.path / source.name)


def _said(place: Place, argv: tuple[str, ...]) -> bytes | str:
    try:
        return place.target.run(argv, deadline=Deadline.after(_CAPTURE_SECONDS)).stdout
    except MemqosError as error:
        return f"not captured: {error}\n"


def _share(source: Path, place: Path) -> None:
    if source == place or not source.exists() or place.exists():
        return
    try:
        place.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, place)


def manifests_text(plan: Json) -> str:
    """The manifest files that a plan's document names as origins, each once after its name; "" if none exists."""
    files = dict.fromkeys(found["file"] for origin in _origins(plan) if (found := _ORIGIN.match(origin)))
    return "---\n".join(text for text in map(_text, map(Path, files)) if text)


def _origins(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(origin := value.get("origin"), str):
            yield origin
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _origins(one)


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LONGEST:
            return f"# {file.name} is longer than {LONGEST >> 10} KiB\n"
        text = file.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
    return f"# {file.name}\n{text.rstrip()}\n"


_PACKAGES = ("grpcio", "protobuf", "pytest", "pytest-testinfra", "pytest-xdist", "PyYAML", "qemu.qmp")


def host() -> dict[str, Any]:
    """System, kernel, architecture, and the number of CPUs that this process may use."""
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }


def versions() -> dict[str, str]:
    """Version by program or package; "not installed" for a missing package."""
    return {"memqos": __version__, "python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
