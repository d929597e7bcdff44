"""Audit a live node whose pods churn: `python -m tests.soak.churn --kubelet-binary PATH --minutes 30`.

A real kubelet runs in a machine. Pods come and go, are resized, and crash again and again, while the node is audited as
`memqos audit --watch` does it. Every few minutes a file of a pod that stays is changed by hand, and put back. Prints
each event. The exit code is 1 if anything else drifted, if a change by hand was not reported in time, or if its end was
not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memqos
from memqos.audits.live import PERIOD_SECONDS, Course, Event, looked_at
from memqos.catalog.recorded_trees import tree_of
from memqos.clock import SYSTEM_CLOCK, Deadline
from memqos.enactor.kubelet.documents import pod_manifest
from memqos.enactor.kubelet.session import KubeletSession
from memqos.engine.answer.finding import Verdict
from memqos.engine.kubelet import Kubelet
from memqos.errors import MachineryError
from memqos.exploration import examples
from memqos.laboratory.kubelets_in_use import kubelet_version
from memqos.model.path import CgroupPath
from memqos.place.collecting import collected
from memqos.target.base import Target
from memqos.workload.command import Anon, Exit, Hold, arguments

MOST_PODS = 6
STEP_SECONDS = (1.0, 6.0)
CHANGES_SECONDS = 240.0
SETTLE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
MIB = 1 << 20
PATIENCE = 4
"""Looks after which a change by hand must have been reported: one that began before it, its confirmation, and two."""

MOST_REASONS = 12
_NAMES = re.compile(r"default/\S+|\S*[0-9a-f]{8,}\S*|[0-9]+")
"""What differs between two reasons that are one."""

IMAGE = "memqos.local/memload:1"
RESIDENT = "resident"


def parser() -> argparse.ArgumentParser:
    """The options of this command."""
    words = argparse.ArgumentParser(prog="python -m tests.soak.churn", description="Audit a node whose pods churn.")
    words.add_argument("--kubelet-binary", type=Path, required=True)
    words.add_argument("--kubelet-config", type=Path, default=Path("fixtures/kubelet/v1.36-tiered.yaml"))
    words.add_argument("--minutes", type=float, default=30.0)
    words.add_argument("--every", type=float, default=10.0, help="seconds between two looks")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--profile", default="trixie")
    words.add_argument("--runtime", default="containerd+runc")
    words.add_argument("--driver", default="systemd")
    words.add_argument("--topology", default="eight-cpus")
    return words


def drawn(seed: int) -> random.Random:
    """The same choices for the same seed."""
    return random.Random(seed)  # noqa: S311 - not for secrets


def memory_of(chance: random.Random) -> dict[str, dict[str, str]]:
    """The resources of one container: none, requests, requests below limits, or equal ones."""
    request = chance.choice((8 * MIB, 20 * MIB, 33 * MIB, 12_345_678))
    limit = request + chance.choice((16 * MIB, 40 * MIB, 5_000_001))
    return chance.choice(
        (
            {},
            {"requests": {"memory": str(request), "cpu": "10m"}},
            {"requests": {"memory": str(request), "cpu": "10m"}, "limits": {"memory": str(limit), "cpu": "100m"}},
            {"requests": {"memory": str(limit), "cpu": "50m"}, "limits": {"memory": str(limit), "cpu": "50m"}},
        )
    )


def pod_of(name: str, uid: str, sizes: Sequence[dict[str, Any]], kubelet: Kubelet, *, crashes: bool) -> dict[str, Any]:
    """A pod's API object. sizes: the resources of each container. crashes: whether they end with 3, again and again."""
    words = arguments([Anon(size=2 * MIB), Exit(code=3)] if crashes else [Anon(size=2 * MIB), Hold()])
    containers = [
        {"name": f"c{number}", "image": IMAGE, "args": list(words), "resources": one}
        for number, one in enumerate(sizes)
    ]
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}
    item = pod_manifest(examples.pod_of(manifest, uid=uid), kubelet, {})
    item["spec"]["restartPolicy"] = "Always"
    return item


@dataclass
class Churn:
    """Pods that come, go, are resized and crash. done: how often what was done."""

    session: KubeletSession
    kubelet: Kubelet
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def step(self) -> None:
        """One change, chosen at random."""
        there = [one for one in self.pods() if one["metadata"]["name"] != RESIDENT]
        steady = [one for one in there if "deletionTimestamp" not in one["metadata"]]
        doing = ["create"] * (len(steady) < MOST_PODS) + ["delete", "resize"] * bool(steady)
        {"create": self.create, "delete": self.delete, "resize": self.resize}[self.chance.choice(doing)](steady)

    def pods(self) -> list[dict[str, Any]]:
        """The API objects of all pods."""
        return self.session.objects("v1", "pods")

    def create(self, _: Sequence[dict[str, Any]]) -> None:
        """A new pod; one of three crashes again and again."""
        self.number += 1
        crashes = self.chance.random() < 1 / 3
        uid = f"c0000000-0000-4000-8000-{self.number:012d}"
        sizes = [memory_of(self.chance) for _ in range(self.chance.choice((1, 1, 2)))]
        pod = pod_of(f"churn-{self.number}", uid, sizes, self.kubelet, crashes=crashes)
        self.session.put("v1", "pods", [pod])
        self.done["created, to crash" if crashes else "created"] += 1

    def delete(self, there: Sequence[dict[str, Any]]) -> None:
        """Delete a pod."""
        meta = self.chance.choice(there)["metadata"]
        self.session.order("delete", names=[[meta["namespace"], meta["name"]]], grace=1)
        self.done["deleted"] += 1

    def resize(self, there: Sequence[dict[str, Any]]) -> None:
        """Add to each amount of memory of one pod, or take from it; its QoS class stays."""
        pod = json.loads(json.dumps(self.chance.choice(there)))
        change = self.chance.choice((3 * MIB, 7_000_001, -4 * MIB))
        for container in pod["spec"]["containers"]:
            for amounts in container["resources"].values():
                amounts["memory"] = str(int(amounts["memory"]) + change)
        if all(int(one["memory"]) > 2 * MIB for c in pod["spec"]["containers"] for one in c["resources"].values()):
            self.session.put("v1", "pods", [pod])
            self.done["resized"] += 1


@dataclass
class Watcher:
    """Audits the node again and again in a thread of its own, and keeps each event."""

    target: Target
    every: float
    events: list[tuple[float, Event]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    longest: float = 0.0
    looks: int = 0
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While the context lasts, the node is audited."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()

    def _watch(self) -> None:
        course = Course()
        while not self._ends.wait(self.every):
            began = SYSTEM_CLOCK.now()
            try:
                found = looked_at(self._look, settle=min(SETTLE_SECONDS, self.every), waits=False)
            except memqos.MemqosError as error:
                self.errors.append(str(error))
                say(f"a look failed: {error}")
                continue
            self.looks += 1
            self.longest = max(self.longest, SYSTEM_CLOCK.now() - began)
            self.counts.update({str(verdict): number for verdict, number in found.counts.items()})
            self.reasons.update(_NAMES.sub("…", one.why_not) for one in found.of(Verdict.NOT_OBSERVABLE))
            for event in course.step(found):
                self.events.append((SYSTEM_CLOCK.now(), event))
                one = event.finding
                say(f"{event.kind}: {one.knob} of {one.cgroup} is {one.observed}, expected {one.expected}")

    def _look(self) -> memqos.Audit:
        document = collected(self.target, timeout=ANSWER_SECONDS)
        return memqos.audit(tree_of(document, self.target.address))

    def seen(self, kind: str, file: tuple[str, str], since: float) -> bool:
        """Whether this event of this (cgroup, file) came since then."""
        found = [(one.finding.cgroup, one.finding.knob) for at, one in self.events if at >= since and one.kind == kind]
        return file in found


@dataclass
class Hand:
    """Changes a file of the pod that stays, and puts it back. missed: what was not reported in time."""

    target: Target
    watcher: Watcher
    files: Sequence[tuple[str, str, str]]
    missed: list[str] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)

    def change_every(self, seconds: float) -> None:
        """A change after a kubelet's period, and then again after so many seconds, until the end."""
        wait = PERIOD_SECONDS
        for number in itertools.count():
            if self.ends.wait(wait):
                return
            try:
                self.change(number)
            except MachineryError as error:
                self.missed.append(str(error))
            wait = seconds

    def change(self, number: int) -> None:
        """Change one of the files; the next time another one."""
        cgroup, knob, value = self.files[number % len(self.files)]
        path = f"/sys/fs/cgroup{cgroup}/{knob}"
        before = self.target.read(path, deadline=Deadline.after(ANSWER_SECONDS)).decode().strip()
        say(f"by hand: {path} from {before} to {value}")
        self._written(path, value, "drift", (cgroup, knob))
        self._written(path, before, "back", (cgroup, knob))

    def _written(self, path: str, value: str, kind: str, file: tuple[str, str]) -> None:
        since = SYSTEM_CLOCK.now()
        self.target.write(path, f"{value}\n".encode(), deadline=Deadline.after(ANSWER_SECONDS))
        looks = self.watcher.looks
        while self.watcher.looks < looks + PATIENCE:
            if self.watcher.seen(kind, file, since):
                self.took.append(SYSTEM_CLOCK.now() - since)
                return
            if self.ends.wait(0.5):
                return
        self.missed.append(f"{kind} of {file[1]} of {file[0]}")


def files_of(pod: str, container: str) -> list[tuple[str, str, str]]:
    """What is changed by hand: files that a kubelet never writes again while the pod stays as it is.

    All are values of its requests: of other files nothing is known under a RuntimeClass that is not modelled.
    """
    return [
        (container, "memory.high", str(40 * MIB)),
        (pod, "memory.max", "max"),
        (container, "memory.max", str(47 * MIB)),
        (container, "cpu.weight", "77"),
    ]


def say(text: str) -> None:
    """A line with the time since the beginning."""
    print(f"{SYSTEM_CLOCK.now() - BEGAN:7.1f} s  {text}", flush=True)  # noqa: T201


BEGAN = SYSTEM_CLOCK.now()


def resident_of(session: KubeletSession, kubelet: Kubelet, target: Target) -> tuple[str, str]:
    """The cgroups of the pod that stays and of its container, once it runs."""
    uid = "a0000000-0000-4000-8000-000000000001"
    sizes = [{"requests": {"memory": str(16 * MIB), "cpu": "10m"}, "limits": {"memory": str(48 * MIB), "cpu": "1"}}]
    session.put("v1", "pods", [pod_of(RESIDENT, uid, sizes, kubelet, crashes=False)])

    def runs() -> bool:
        pod = next(one for one in session.objects("v1", "pods") if one["metadata"]["name"] == RESIDENT)
        statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
        return "running" in (statuses[0].get("state") or {})

    session.until("the pod that stays runs", runs, Deadline.after(240.0))
    find = ["find", "/sys/fs/cgroup", "-type", "d", "-path", f"*pod*{uid.replace('-', '[-_]')}*"]
    paths = target.run(find, deadline=Deadline.after(ANSWER_SECONDS)).text.splitlines()
    cgroups = sorted((one.removeprefix("/sys/fs/cgroup") for one in paths), key=len)
    holding = [one for one in cgroups[1:] if limited(target, one)]
    return cgroups[0], str(CgroupPath.parse(holding[0]))


def limited(target: Target, cgroup: str) -> bool:
    """Whether this is the container and not the sandbox, which has no limit."""
    path = f"/sys/fs/cgroup{cgroup}/memory.max"
    return target.read(path, deadline=Deadline.after(ANSWER_SECONDS)).decode().strip() != "max"


def main(words: Sequence[str]) -> int:
    """0 if only the changes by hand drifted, each in time."""
    given = parser().parse_args(words)
    release = ".".join(kubelet_version(given.kubelet_binary).removeprefix("v").split(".")[:2])
    with memqos.lab(
        profile=given.profile,
        runtime=given.runtime,
        driver=given.driver,
        topology=given.topology,
        kubelet_binary=str(given.kubelet_binary),
    ) as bench:
        pods = bench.admit("fixtures/pods/best-effort.yaml", kubernetes=release, kubelet_config=given.kubelet_config)
        session = bench.node.kubelet_verbs(pods).answers
        target = bench.node.target
        assert isinstance(session, KubeletSession)
        kubelet = pods.kubelets[-1]
        hand_files = files_of(*resident_of(session, kubelet, target))
        churn, watcher = Churn(session, kubelet, drawn(given.seed)), Watcher(target, given.every)
        hand = Hand(target, watcher, hand_files)
        with watcher.watching():
            churned(churn, hand, minutes=given.minutes)
    return judged(churn, watcher, hand)


def churned(churn: Churn, hand: Hand, *, minutes: float) -> None:
    """Churn for so long; changes by hand have a thread of their own."""
    ends = SYSTEM_CLOCK.now() + minutes * 60
    by_hand = threading.Thread(target=hand.change_every, args=(CHANGES_SECONDS,))
    by_hand.start()
    try:
        while SYSTEM_CLOCK.now() < ends:
            churn.step()
            SYSTEM_CLOCK.sleep(churn.chance.uniform(*STEP_SECONDS))
    finally:
        hand.ends.set()
        by_hand.join()


def judged(churn: Churn, watcher: Watcher, hand: Hand) -> int:
    """Print what was done and seen; 1 for a false deviation, a missed change or a node that was never read."""
    ours = {(cgroup, knob) for cgroup, knob, _ in hand.files}
    false = [one for _, one in watcher.events if (one.finding.cgroup, one.finding.knob) not in ours]
    done = ", ".join(f"{what} {number}" for what, number in sorted(churn.done.items()))
    say(f"pods: {done}")
    counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(watcher.counts.items()))
    say(f"{watcher.looks} audits, the longest {watcher.longest:.0f} s, {len(watcher.errors)} failed: {counts}")
    for reason, number in watcher.reasons.most_common(MOST_REASONS):
        say(f"  {number} not observable: {reason}")
    took = ", ".join(f"{one:.0f}" for one in hand.took)
    say(f"by hand: {len(hand.took)} events after {took} s; missed: {'; '.join(hand.missed) or 'none'}")
    say(f"{len(false)} unexpected events")
    is_read = watcher.counts[str(Verdict.CONFORMS)] > 0
    return 0 if is_read and hand.took and not (false or hand.missed or watcher.errors) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
