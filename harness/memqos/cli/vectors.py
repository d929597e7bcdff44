"""`memqos vectors`: literal cases of what kubelets write, for table tests of other programs.

A case is self-contained: a pod, a configuration and a node, with the value of every file. The cases come from memqos's
own catalogue, or from the user's manifests.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import yaml

from memqos.catalog.data import data_root
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.manifests import Manifest, manifests_in
from memqos.catalog.node_facts import load_facts
from memqos.catalog.pods import read_text
from memqos.cli.terminal import KnownVerbs, say_document
from memqos.engine.cgroup import layout
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup
from memqos.engine.releases.release import Variant
from memqos.errors import ManifestError, UsageError
from memqos.model.knob import ABSENT
from memqos.model.node import CgroupDriver, NodeFacts
from memqos.model.pod import Pod

__all__ = ["command"]


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


HELP = """Literal cases of what kubelets write, for table tests of other programs.

\b
Examples:
  memqos vectors export --kubernetes 1.37 > memory_qos_v1.37.json
"""

EXPORT = """Print literal cases as JSON.

A case has a pod, a configuration and a node, and what every interface file must hold. The pods and configurations are
those of memqos's own catalogue, as far as the release accepts them, or the given ones. docs/how-to/use-vectors.md has
the fields and an example in Go.

\b
Examples:
  memqos vectors export --kubernetes 1.37 > memory_qos_v1.37.json
  memqos vectors export --kubernetes 1.36 --pods pod.yaml --kubelet-config kubelet.yaml
"""


@click.group(name="vectors", cls=KnownVerbs, help=HELP)
def command() -> None:
    """The page of `memqos vectors`."""


@command.command(name="export", help=EXPORT)
@click.option("--kubernetes", required=True, metavar="X.Y", help="The Kubernetes release.")
@click.option("--pods", multiple=True, metavar="FILE", help="Pods; may be repeated. Default: those of the catalogue.")
@click.option(
    "--kubelet-config",
    multiple=True,
    metavar="FILE",
    help="Configurations, each for all pods; may be repeated.",
)
@click.option("--node", metavar="FILE", help="Facts of the node. Default: 8Gi of memory, 2Gi of swap, 4 CPUs.")
@click.option(
    "--as",
    "variant",
    type=click.Choice([variant.value for variant in Variant]),
    default=Variant.SHIPPED.value,
    show_default=True,
    help="Which rules apply where several exist, as for expect.",
)
def _export(
    *, kubernetes: str, pods: tuple[str, ...], kubelet_config: tuple[str, ...], node: str | None, variant: str
) -> int:
    given: dict[str, Any] = {} if node is None else {"node": load_facts(node)}
    source = VectorSource(kubernetes=kubernetes, pods=pods, configs=kubelet_config, variant=Variant(variant), **given)
    say_document(exported_vectors(source))
    return 0
