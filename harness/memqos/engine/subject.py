"""Subjects: the thing that a finding is about, as a value; how a reader calls it is made from that value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memqos.engine.plan import Level, PlannedCgroup, PlannedPod

__all__ = ["Subject", "subject_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding, or an answer about a plan, is about. Equal subjects are the same thing of one node.

    level: its place in the tree; a thing of the machine that is no cgroup has the node's. name: that of a cgroup above
    the pods ("kubepods.slice") or of a thing of the machine ("the swap devices"). pod: namespace and name
    ("default/web"), "" for none, and for a container that was requested without one. container: its name.
    part: "scope" for the scope around a container, "" for the whole. when: the moment ("after the resize"), "" where
    there is one only.
    """

    level: Level
    name: str = ""
    pod: str = ""
    container: str = ""
    part: str = ""
    when: str = ""

    @classmethod
    def of_machine(cls, name: str) -> Subject:
        """A thing of the machine that is no cgroup: "the swap devices"."""
        return cls(level=Level.NODE, name=name)

    @classmethod
    def of_pod(cls, namespace: str, name: str) -> Subject:
        """A pod, planned or not."""
        return cls(level=Level.POD, pod=f"{namespace}/{name}")

    @classmethod
    def of_container(cls, name: str, pod: str = "") -> Subject:
        """A container; pod: namespace and name of its pod, "" where it was asked for without one."""
        return cls(level=Level.CONTAINER, container=name, pod=pod)

    def scope(self) -> Subject:
        """The cgroup around a container that crun with a subgroup and runsc make: its systemd scope."""
        return replace(self, part="scope")

    def at(self, when: str) -> Subject:
        """The same at another moment."""
        return replace(self, when=when)

    def __str__(self) -> str:
        """What a reader calls it: "kubepods.slice", "container app of pod default/web", "scope of container app"."""
        named = {Level.POD: f"pod {self.pod}", Level.CONTAINER: f"container {self.container}"}.get(
            self.level, self.name
        )
        if self.level is Level.CONTAINER and self.pod:
            named += f" of pod {self.pod}"
        named = f"{self.part} of {named}" if self.part else named
        return f"{named}, {self.when}" if self.when else named


def subject_of(cgroup: PlannedCgroup, pod: PlannedPod | None = None) -> Subject:
    """The subject that a planned cgroup is; pod: the one that it belongs to, of a cgroup of a pod or a container."""
    if pod is None or cgroup.level in {Level.NODE, Level.QOS, Level.RESERVED}:
        return Subject(level=cgroup.level, name=cgroup.path.name or "root")
    if cgroup.level is Level.POD:
        return Subject.of_pod(pod.namespace, pod.name)
    return Subject.of_container(cgroup.container, f"{pod.namespace}/{pod.name}")
