"""Evidence on disk: folders that take values as they happen, the log of one machine, and what explains a failure."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memqos import frame
from memqos.clock import Deadline
from memqos.engine.answer.document import cgroup_document, plan_document
from memqos.engine.plan import Plan, PlannedCgroup
from memqos.errors import MemqosError
from memqos.model.reading import Reading
from memqos.place.base import Place
from memqos.probe.looks import Look, Spoken
from memqos.report.as_json import Json, as_json
from memqos.report.timing import Timing
from memqos.runtime.base import CallRecord

if TYPE_CHECKING:
    from memqos.node.pods.weighing import Weight

__all__ = ["LONGEST", "Folder", "MachineLog", "capture", "manifests_text"]

_CAPTURE_SECONDS = 20.0
_SHARED = ("plan.json", "readings.jsonl", "requests.jsonl", "series.jsonl", "workloads.jsonl")

LONGEST = 64 << 10
"""A longer file is named and not kept: no manifest is."""

_ORIGIN = re.compile(r"^(?P<file>.+?\.(?:ya?ml|json)):\d+(?:[ ,].*)?$")


class Folder:
    """A folder of evidence; it is made with its first file. Lines are flushed, so that a kill loses none.

    shared: whether it is about something that many tests look at, and that stays as it is while they do.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self.shared = shared
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Accept nothing more: only a thread on an abandoned machine still writes, next to the following attempt."""
        with self._lock:
            self._is_closed = True

    def clear(self) -> None:
        """Begin anew, where an attempt that counts no more has left something."""
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
        """A value as one more JSON line."""
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
    """What the host refuses to keep is told as that: a full disk says nothing about the system under test."""
    try:
        yield
    except OSError as error:
        refused = frame.of_the_host(error, where=str(file), next_step="Free some space, or name another --results.")
        raise refused or error from error


class MachineLog:
    """Keeps plans, readings and calls of one machine, in the folder of the population or test that uses it now."""

    def __init__(self, own: Folder) -> None:
        self._own = own
        self._current = own
        self._threads = threading.local()
        self.timing = Timing()
        self.overhead: Mapping[str, int] = {}

    @property
    def current(self) -> Folder:
        """Where evidence goes now: a population's folder, a test's, or the machine's own."""
        apart: Folder | None = getattr(self._threads, "folder", None)
        return apart or self._current

    def go_to(self, folder: Folder | None) -> None:
        """From now on write there; None is the machine's own folder."""
        self._current = folder or self._own

    @contextlib.contextmanager
    def apart(self, folder: Folder) -> Iterator[None]:
        """Until the context ends, what this thread does is written there, wherever the others write."""
        self._threads.folder = folder
        try:
            yield
        finally:
            del self._threads.folder

    def plan(self, plan: Plan, *, requested: PlannedCgroup | None = None) -> None:
        """Keep a plan, and the files that it was made of, which say nothing of a container that was asked for."""
        document = plan_document(plan)
        if requested is not None:
            document["cgroups"].append(cgroup_document(requested))
        self.current.write("plan.json", _compact(document))
        if requested is None and (text := manifests_text(document)):
            self.current.write("manifests.yaml", text)

    def reading(self, reading: Reading) -> None:
        """Keep one reading more."""
        self.current.append("readings.jsonl", reading)

    def weight(self, weight: Weight) -> None:
        """Keep what the runtime itself weighs."""
        self.overhead = weight.document()

    def look(self, look: Look) -> None:
        """Keep what changed in a cgroup that is watched."""
        self.current.append("series.jsonl", look)

    def spoken(self, spoken: Spoken) -> None:
        """Keep what a workload was told, or said."""
        self.current.append("workloads.jsonl", spoken)

    def call(self, record: object) -> None:
        """Keep one request with its reply, and how long an answer took."""
        if isinstance(record, CallRecord) and not record.error:
            self.timing.add(record.method, record.seconds)
        self.current.append("requests.jsonl", record)


def capture(place: Place, folder: Folder, *, used: Folder) -> None:
    """Gather a failure's evidence in the test's own folder.

    used: where the evidence of the population that was tested has been going; its files are shared, not copied, where
    the file system can. What the machine cannot say any more is named in the file instead.
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
    """The files that a plan's document names as origins, each once behind its name; "" if none of them is there."""
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
