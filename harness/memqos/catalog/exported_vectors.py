"""Literal cases for table tests of other programs: a pod, a configuration and a node, with every file's value.

The cases come from memqos's own catalogue, or from the user's manifests. A case is self-contained.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.pods import read_text
from memqos.engine.cgroup import layout
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup
from memqos.engine.releases.release import Variant
from memqos.errors import ManifestError, UsageError
from memqos.model.knob import ABSENT
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.pod import Pod

__all__ = ["VECTORS_FORMAT", "VectorSource", "exported_vectors"]

VECTORS_FORMAT = 1
_FACTS = NodeFacts(memory=8 << 30, swap=2 << 30, cpus=4, origin="memqos vectors export")
_UIDS = "00000000-0000-4000-8000-{:012d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSource:
    """The input for cases. pods, configs: files; empty for those of the catalogue that the release accepts."""

    kubernetes: str
    pods: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    variant: Variant = Variant.SHIPPED
    node: NodeFacts = _FACTS


def exported_vectors(source: VectorSource) -> dict[str, Any]:
    """The document. Raises UsageError if there is no case, and for unreadable files."""
    configs = list(_configs(source))
    pods = list(_pods(source.pods))
    cases = [case for config in configs for pod in pods if (case := _case(source, config, pod)) is not None]
    if not cases:
        raise UsageError(
            f"no configuration and pod has a case under Kubernetes {source.kubernetes}.",
            where="memqos vectors export",
            next_step="Give other --pods or --kubelet-config.",
        )
    return {
        "memqos_vectors": VECTORS_FORMAT,
        "kubernetes": source.kubernetes,
        "variant": source.variant.value,
        "cases": cases,
    }


def _catalogue(folder: str) -> tuple[str, ...]:
    return tuple(str(path) for path in sorted((data_root() / folder).glob("*.yaml")))


def _configs(source: VectorSource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and text of each configuration that the release accepts; it must accept the user's."""
    for path in source.configs or _catalogue("fixtures/kubelet"):
        [text] = _documents(path, "--kubelet-config") or [None]
        if not isinstance(text, dict):
            raise UsageError(f"the file '{path}' has no configuration.", where="--kubelet-config")
        try:
            plan = expect((), _kubelet(source, path))
        except ManifestError:
            if source.configs:
                raise
            continue
        if source.configs or not plan.ignored:
            yield path, text


def _documents(path: str, option: str) -> list[Any]:
    """The documents of a YAML file; UsageError for an unreadable one."""
    try:
        text = read_text(path).decode("utf-8-sig")
        found = [one for one in yaml.safe_load_all(text) if one]
        json.dumps(found)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        what = str(error).partition("\n")[0]
        raise UsageError(f"the file '{path}' cannot be read: {what}.", where=option) from None
    if option == "--kubelet-config" and len(found) > 1:
        raise UsageError(
            f"the file '{path}' has {len(found)} documents.", where=option, next_step="Give one in a file."
        )
    return found


def _kubelet(source: VectorSource, config: str) -> Kubelet:
    settings = load_settings(config)
    return Kubelet.of(node=source.node, settings=settings, release=source.kubernetes, variant=source.variant)


def _pods(given: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any], Pod]]:
    """Each pod with its name in the catalogue and its stored manifest."""
    number = 0
    for path in given or _catalogue("fixtures/pods"):
        documents = _documents(path, "--pods")
        if not given and any(isinstance(one, dict) and one.get("kind") != "Pod" for one in documents):
            # The pod is admitted with another object of the file; a case has only the admitted pod.
            continue
        for document in documents:
            if not isinstance(document, dict) or document.get("kind") != "Pod":
                raise ManifestError.at(
                    "expected a v1 Pod.", file=path, next_step="Give Pods, not objects that create them."
                )
            number += 1
            document["metadata"] = {**document.get("metadata", {}), "uid": _UIDS.format(number)}
            text = io.BytesIO(json.dumps(document).encode())
            for one in manifests_in(text, path):
                if isinstance(one, Manifest):
                    yield Path(path).stem, document, replace(one.pods[0], submission=None)


def _case(
    source: VectorSource, config: tuple[str, Mapping[str, Any]], given: tuple[str, Mapping[str, Any], Pod]
) -> dict[str, Any] | None:
    """One case; None for a pod that this node cannot run."""
    path, text = config
    name, manifest, pod = given
    kubelet = _kubelet(source, path)
    plan = expect((pod,), kubelet)
    if plan.unmodelled:
        return None
    node = source.node
    return {
        "name": f"{Path(path).stem}/{name}",
        "pod": manifest,
        "kubeletConfiguration": text,
        "node": {
            "memory": node.memory,
            "swap": node.swap,
            "cpus": node.cpus,
            "pageSize": node.page_size,
            "cgroup": node.cgroup_version.value,
        },
        "expected": _expected(plan, kubelet.driver),
    }


def _expected(plan: Plan, driver: CgroupDriver) -> dict[str, Any]:
    refused = [{"by": one.by.value, "reason": one.reason_name, "message": one.message} for one in plan.refusals]
    return {
        "cgroupDriver": driver.value,
        "refused": refused,
        "qosClass": plan.pods[0].qos.value if plan.pods else "",
        "oomScoreAdj": {one.name: one.oom_score_adj for pod in plan.pods for one in pod.containers},
        "cgroups": [_cgroup(cgroup, driver) for cgroup in _cgroups(plan)],
    }


def _cgroups(plan: Plan) -> Iterable[PlannedCgroup]:
    yield plan.node
    yield from plan.qos
    for pod in plan.pods:
        yield pod.cgroup
        yield from (one.cgroup for one in pod.containers)


def _cgroup(cgroup: PlannedCgroup, driver: CgroupDriver) -> dict[str, Any]:
    # A container's cgroup has the runtime's id in its name: a case has the names of pod and container instead.
    return {
        "level": cgroup.level.value,
        "path": "" if cgroup.container else str(cgroup.path),
        "name": "" if cgroup.container else "/".join(layout.name_of_path(cgroup.path, driver)),
        "container": cgroup.container,
        "files": {knob.value: _file(one) for knob, one in cgroup.knobs.items() if not one.undecided},
    }


def _file(one: Expected) -> dict[str, str | None]:
    return {"written": None if one.written is ABSENT else str(one.written), "shown": one.shown}
