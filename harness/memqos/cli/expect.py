"""`memqos expect`: what every interface file must hold for these pods, and why.

The rarely used answers, about changes and resizes, are imported late: imports take most of the command's time.
Everything is planned, even if only some pods and containers are printed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

import click

from memqos.catalog.pods import Manifests
from memqos.cli.manifest_options import ManifestOptions, manifest_options, others_document, pods_of_one_node
from memqos.cli.node_options import (
    KubeletOptions,
    NodeOptions,
    RuntimeOptions,
    kubelet_options,
    need_releases,
    node_options,
    runtime_of_node,
    runtime_options,
    usage_of,
)
from memqos.cli.terminal import say, say_document, say_ignored
from memqos.engine.answer.document import plan_parts
from memqos.engine.answer.explain import knob_reasons, plan_tree, translations_text, with_pods
from memqos.engine.answer.finding import subject_of
from memqos.engine.cgroup.protection import CgroupProtection, planned_protection, protection_document, protection_text
from memqos.engine.cgroup.throttle import DEFAULT_HZ, Slowed, slowing, slowing_document, slowing_text
from memqos.engine.cgroup.usage import Unanswered, unanswered
from memqos.engine.cgroup.victims import Shortage, shortages, shortages_document, shortages_text
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan, PlannedCgroup, PlannedPod
from memqos.engine.releases.errata import errata_document, errata_text
from memqos.engine.releases.table import PREVIEW, RELEASES, Gate
from memqos.engine.translate.explain import Language
from memqos.errors import ManifestError, UnknownNameError, UsageError
from memqos.model.knob import Knob
from memqos.model.node import KubeletSettings, NodeFacts
from memqos.model.pod import Pod

__all__ = ["command"]


def narrowed(plan: Plan, pods: Sequence[str], containers: Sequence[str]) -> Plan:
    """The plan with only these pods and containers.

    pods: "name" or "namespace/name", containers: names; both may have the wildcards * ? [, and none means all. The
    cgroups above pods are left out. If containers are named, the cgroups of pods have no files. Raises UnknownNameError
    for a name without a match.
    """
    if not pods and not containers:
        return plan
    names = [f"{pod.namespace}/{pod.name}" for pod in plan.pods] + [refusal.name for refusal in plan.refusals]
    _check("pod", pods, names)
    _check("container", containers, sorted({one.name for pod in plan.pods for one in pod.containers}))
    chosen = [_with(pod, containers) for pod in plan.pods if _is_named(f"{pod.namespace}/{pod.name}", pods)]
    return replace(
        plan,
        node=_bare(plan.node),
        qos=(),
        reserved=(),
        pods=tuple(pod for pod in chosen if pod.containers or not containers),
        refusals=tuple(one for one in plan.refusals if _is_named(one.name, pods)) if not containers else (),
    )


def _check(kind: str, patterns: Sequence[str], known: list[str]) -> None:
    for pattern in patterns:
        if not any(_is_named(name, [pattern]) for name in known):
            raise UnknownNameError.of(kind, pattern, known, where=f"--{kind}")


def _is_named(full: str, patterns: Sequence[str]) -> bool:
    """Whether a name (a pod's is namespace/name) matches one of these; without patterns every name matches."""
    name = full.rpartition("/")[2]
    return not patterns or any(fnmatchcase(full if "/" in one else name, one) for one in patterns)


def _with(pod: PlannedPod, containers: Sequence[str]) -> PlannedPod:
    if not containers:
        return pod
    kept = tuple(one for one in pod.containers if _is_named(one.name, containers))
    return replace(pod, cgroup=_bare(pod.cgroup), containers=kept)


def _bare(cgroup: PlannedCgroup) -> PlannedCgroup:
    return replace(cgroup, knobs={}, summed=frozenset())


_ALL = "all"

HELP = """Print what every interface file must hold for the pods in FILE… under a kubelet of one release.

FILE is what kubectl takes, in YAML or JSON: Pods, and objects that create pods (Deployment, StatefulSet, DaemonSet,
ReplicaSet, ReplicationController, Job, CronJob, PodTemplate), one or several, in a List or not; a folder of such files;
or - for standard input. New pods are planned as the API server stores them: PriorityClass, LimitRange, RuntimeClass,
ResourceQuota, Namespace and VerticalPodAutoscaler objects in the same input are applied; notes list other objects.
The command runs no containers: the reference engine computes each value, with its reasons.

\b
What must hold, and why:
  memqos expect pod.yaml --kubernetes 1.36
  memqos expect pod.yaml --kubernetes 1.27 --kubelet-config kubelet.yaml --why memory.high
  memqos expect a.yaml b.yaml --kubernetes 1.36 --capacity-memory 16Gi --swap 4Gi --cpus 8 --json
  memqos expect pod.yaml --kubernetes 1.36 --set featureGates.MemoryQoS=true --set memoryThrottlingFactor=0.8

\b
Pods from other programs:
  kubectl get pods -A -o json | memqos expect - --kubernetes 1.36 --node-name n7
  helm template web ./chart | memqos expect - --kubernetes 1.36
  memqos expect -R deploy/ --kubernetes 1.36 --replicas 1 --replicas web=3
  memqos expect limits.yaml web.yaml vpa.yaml --kubernetes 1.36 --namespace team-a --vpa
  memqos expect pods.yaml --kubernetes 1.36 --pod 'team-a/web-*' --container app

\b
The effect of an upgrade, a configuration or a resize:
  memqos expect pod.yaml --diff 1.27 1.36 --kubelet-config kubelet.yaml
  memqos expect pod.yaml --diff 1.36 1.37 --kubelet-config kubelet.yaml --running
  memqos expect pod.yaml --kubernetes 1.36 --kubelet-config a.yaml --diff-config b.yaml
  memqos expect pod.yaml --kubernetes 1.36 --resize wanted.yaml
  memqos expect pod.yaml --kubernetes 1.34 --resize wanted.yaml --state web/app=crash-looping
  memqos expect pod.yaml --kubernetes 1.37 --kubelet-config a.yaml --diff-config b.yaml --running --resize wanted.yaml

\b
What the runtime writes, and what the kernel does with it:
  memqos expect pod.yaml --kubernetes 1.36 --translate docker --translate files --runtime crun@1.21 --driver systemd
  memqos expect pod.yaml --kubernetes 1.36 --protection --usage web/app=200Mi
  memqos expect pod.yaml --kubernetes 1.36 --set memoryThrottlingFactor=0.8 --throttling
  memqos expect pods.yaml --kubernetes 1.36 --oom --usage web/app=200Mi

\b
Errors in the texts of the enhancement proposals:
  memqos expect --errata
"""


@click.command(name="expect", help=HELP)
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--kubernetes",
    metavar="X.Y",
    help=f"The Kubernetes release, 1.{RELEASES[0]} to 1.{RELEASES[-1]}, or 1.{PREVIEW}-preview for the published "
    "part of the next. Default: that of the Node object in --node, or of kubeadm's ClusterConfiguration.",
)
@click.option(
    "--kubelet-config",
    multiple=True,
    metavar="FILE|FOLDER",
    help="The kubelet's configuration: a KubeletConfiguration, /configz output, or a file of kubeadm, k3s or RKE2; - "
    "reads standard input. May be repeated, and may be a folder of *.conf files: merged in order as by --config-dir.",
)
@kubelet_options
@click.option("--why", metavar="KNOB", help="Print the reason chain of one interface file, like memory.high.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--diff", nargs=2, metavar="A B", help="Print what changes from release A to release B.")
@click.option(
    "--diff-config",
    multiple=True,
    metavar="FILE|FOLDER",
    help="Print what changes from --kubelet-config to this configuration; may be repeated.",
)
@click.option("--running", is_flag=True, help="With --diff or --diff-config: the pods keep running during the change.")
@click.option("--resize", metavar="FILE", help="Print how an in-place resize to this manifest's resources proceeds.")
@click.option(
    "--state",
    multiple=True,
    metavar="[NAMESPACE/]POD/CONTAINER=STATE",
    help="A container's state when --resize arrives: running (default, unless the pod's status reports another), "
    "exited, or crash-looping. May be repeated.",
)
@click.option(
    "--errata", is_flag=True, help="Print the known errors in the texts and tables of the enhancement proposals."
)
@click.option("--pod", multiple=True, metavar="[NAMESPACE/]NAME", help="Show only this pod; * and ? are wildcards.")
@click.option("--container", multiple=True, metavar="NAME", help="Show only containers of this name.")
@click.option(
    "--node-name",
    metavar="NAME",
    help="Plan only the pods that are bound to this node (spec.nodeName).",
)
@click.option(
    "--static", is_flag=True, help="The pods are static: the kubelet reads them from files, so they are critical."
)
@click.option(
    "--translate",
    multiple=True,
    type=click.Choice([*(language.value for language in Language), _ALL]),
    help="Print each container's resources in this format, and what the format cannot express; may be repeated. files: "
    "what the OCI runtime writes.",
)
@click.option(
    "--protection",
    is_flag=True,
    help="Print the effective protection of each memory.min and memory.low, with and without memory_recursiveprot.",
)
@click.option(
    "--throttling",
    is_flag=True,
    help="Print at which usage each memory.high slows a program down, where it stalls, and the shortest and longest "
    "time to memory.max.",
)
@click.option(
    "--hz",
    type=click.IntRange(24, 1200),
    metavar="N",
    help="For --throttling: jiffies per second of the node's kernel (CONFIG_HZ). Default: 250; 1000 on Fedora and "
    "RHEL.",
)
@click.option(
    "--oom",
    is_flag=True,
    help="Print which containers are killed first if the machine, or a cgroup above them, runs out of memory.",
)
@click.option(
    "--usage",
    multiple=True,
    metavar="[NAMESPACE/]POD/CONTAINER=SIZE",
    help="What a container uses. Default: all of its memory.max for --protection and --oom; with --resize, little "
    "enough for any lower limit. May be repeated.",
)
@manifest_options
@node_options
@runtime_options
def command(files: tuple[str, ...], *, errata: bool, as_json: bool, **options: Any) -> None:
    """The page of `memqos expect`."""
    if errata:
        say(json.dumps(errata_document(), indent=1) if as_json else errata_text())
        return
    node = NodeOptions(**{field.name: options.pop(field.name) for field in fields(NodeOptions)})
    runtime = RuntimeOptions(**{field.name: options.pop(field.name) for field in fields(RuntimeOptions)})
    kubelet = KubeletOptions(**{field.name: options.pop(field.name) for field in fields(KubeletOptions)})
    manifests = ManifestOptions(**{field.name: options.pop(field.name) for field in fields(ManifestOptions)})
    order = _Order(
        files=files, as_json=as_json, node=node, runtime=runtime, kubelet=kubelet, manifests=manifests, **options
    )
    order.check()
    if order.resize:
        say(order.resizes())
    elif order.diff or order.diff_config:
        say(order.changes())
    elif as_json:
        say_document(order.plan_parts())
    else:
        say(order.plan_text())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The options and arguments, as click gives them, and the answers to them."""

    files: tuple[str, ...]
    as_json: bool
    node: NodeOptions
    runtime: RuntimeOptions
    kubelet: KubeletOptions
    manifests: ManifestOptions
    kubernetes: str | None
    kubelet_config: tuple[str, ...]
    why: str | None
    static: bool
    translate: tuple[str, ...]
    protection: bool
    throttling: bool
    hz: int | None
    oom: bool
    usage: tuple[str, ...]
    state: tuple[str, ...]
    diff: tuple[str, str] | None
    diff_config: tuple[str, ...]
    running: bool
    resize: str | None
    node_name: str | None
    pod: tuple[str, ...]
    container: tuple[str, ...]

    def check(self) -> None:
        """Raise UsageError for options that do not fit together."""
        if not self.files:
            raise click.UsageError("Missing argument 'FILE...': the pods' manifests.")
        if not (self.kubernetes or self.diff or self.node.node_file or self.kubelet_config):
            raise click.UsageError("Missing option '--kubernetes': the release, such as 1.36.")
        if self.kubernetes and self.diff:
            raise click.UsageError("--diff names both releases: leave --kubernetes out.")
        if self.running and not (self.diff or self.diff_config):
            raise click.UsageError("--running needs a change: give --diff or --diff-config.")
        if self.why and (self.diff or self.diff_config):
            raise click.UsageError("--why explains one plan; --diff and --diff-config print their reasons without it.")
        self._check_answers()
        configurations = (*self.kubelet_config, *self.diff_config, *self.kubelet.flags)
        read = [*self.files, *configurations, self.node.node_file, self.resize]
        if read.count("-") > 1:
            raise UsageError("standard input (-) can be read once only.", where="memqos expect")

    def _check_answers(self) -> None:
        """Raise UsageError for answers that cannot be combined."""
        of_one_plan = bool(self.translate) or self.protection or self.throttling or self.oom
        if of_one_plan and (self.diff or self.diff_config):
            raise click.UsageError(
                "--translate, --protection, --throttling and --oom need one plan: leave out --diff and --diff-config."
            )
        if self.resize and of_one_plan:
            raise click.UsageError("--resize cannot be combined with --translate, --protection, --throttling or --oom.")
        if self.resize and (self.diff or self.diff_config) and not self.running:
            raise click.UsageError("--resize with --diff or --diff-config needs --running: the pods run through both.")
        if self.resize and (self.pod or self.container):
            raise click.UsageError("--resize needs all pods of both manifests: leave out --pod and --container.")
        if self.state and not self.resize:
            raise click.UsageError("--state needs --resize.")
        if self.usage and not (self.protection or self.oom or self.resize):
            raise click.UsageError("--usage needs --protection, --oom or --resize.")
        if self.hz is not None and not self.throttling:
            raise click.UsageError("--hz needs --throttling: no other answer depends on the kernel's jiffies.")
        if self.translate and self.runtime.weight:
            raise click.UsageError("--translate needs the runtimes' rules: name them with --runtime, not --weight.")

    def plan_text(self) -> str:
        """The answer about one plan, as text."""
        knob = _knob(self.why)
        whole, plan, protections, kubelet = self._one_plan(self._manifests())
        if knob is not None:
            return knob_reasons(plan, knob, translated_for=self._translated(kubelet))
        parts = [translations_text(plan, self._languages(), kubelet)] if self.translate else []
        parts += [protection_text(protections)] if protections else []
        parts += [slowing_text(*self._slowing(plan, kubelet))] if self.throttling else []
        parts += [shortages_text(self._shortages(whole, kubelet))] if self.oom else []
        return "\n\n".join(parts) or plan_tree(plan, above=not (self.pod or self.container))

    def plan_parts(self) -> dict[str, Any]:
        """The answer about one plan, as JSON whose long lists are iterators."""
        knob = _knob(self.why)
        found = self._manifests()
        whole, plan, protections, kubelet = self._one_plan(found)
        document = plan_parts(plan, translated_for=self._translated(kubelet), slotted=knob is None)
        document["passed_over"] = others_document(found.others)
        if protections:
            document["protection"] = protection_document(protections)
        if self.throttling:
            document["throttling"] = slowing_document(*self._slowing(plan, kubelet))
        if self.oom:
            document["oom"] = shortages_document(self._shortages(whole, kubelet))
        if knob is not None:
            document["cgroups"] = (_with_one_knob(cgroup, knob) for cgroup in document["cgroups"])
        return document

    def _one_plan(self, found: Manifests) -> tuple[Plan, Plan, tuple[CgroupProtection, ...], Kubelet]:
        """The whole plan, the chosen part of it, and its kubelet."""
        pods = self._pods(found)
        kubelet = self._kubelet()
        if self._translated(kubelet) is not None:
            need_releases(kubelet.runtimes)
        plan = self._planned(pods, kubelet)
        say_ignored(plan)
        chosen, protections = self._chosen(plan), self._protection(plan, kubelet)
        if chosen is not plan:
            subjects = {subject_of(cgroup, pod) for cgroup, pod in with_pods(chosen) if cgroup.knobs}
            protections = tuple(one for one in protections if one.subject in subjects)
        return plan, chosen, protections, kubelet

    def _chosen(self, plan: Plan) -> Plan:
        return narrowed(plan, self.pod, self.container)

    def _translated(self, kubelet: Kubelet) -> Kubelet | None:
        """The kubelet whose requests are translated; None without --translate."""
        return kubelet if self.translate or self.protection else None

    def _protection(self, plan: Plan, kubelet: Kubelet) -> tuple[CgroupProtection, ...]:
        if not self.protection:
            return ()
        if not kubelet.v2:
            raise UsageError("cgroup v1 has no memory.min and memory.low.", where="--protection")
        return planned_protection(plan, kubelet, usage_of(self.usage, plan, kubelet.node, is_known=self.node.said))

    def _slowing(self, plan: Plan, kubelet: Kubelet) -> tuple[tuple[Slowed, ...], tuple[Unanswered, ...]]:
        if not kubelet.v2:
            raise UsageError("cgroup v1 has no memory.high.", where="--throttling")
        found = slowing(plan, page_size=kubelet.node.page_size, hz=self.hz or DEFAULT_HZ)
        return found, unanswered(plan, kubelet, (Knob.MEMORY_HIGH,))

    def _shortages(self, plan: Plan, kubelet: Kubelet) -> tuple[Shortage, ...]:
        if not kubelet.v2:
            raise UsageError(
                "the order of kills is modelled for cgroup v2 only, and this node has cgroup v1.", where="--oom"
            )
        return shortages(plan, kubelet, usage_of(self.usage, plan, kubelet.node, is_known=self.node.said))

    def _languages(self) -> tuple[Language, ...]:
        return tuple(Language) if _ALL in self.translate else tuple(map(Language, self.translate))

    def resizes(self) -> str:
        """The answer about pods that change while they run."""
        from memqos.cli.expect_changes import ResizeQuestion, resizes_text

        knob = _knob(self.why)
        found = self._manifests()
        pods = self._pods(found)
        kubelets, names = self._two_kubelets() if self.diff or self.diff_config else ((self._kubelet(),), ())
        question = ResizeQuestion(
            pods=pods,
            desired=self.manifests.load([self.resize or ""], found.cluster).pods,
            kubelets=kubelets,
            plans=tuple(self._planned(pods, kubelet) for kubelet in kubelets),
            names=names,
            usage=self.usage,
            states=self.state,
        )
        return resizes_text(question, knob=knob, as_json=self.as_json)

    def changes(self) -> str:
        """The answer about two plans."""
        from memqos.cli.expect_changes import changes_text
        from memqos.engine.resize.takeover import taken_over

        pods = self._pods(self._manifests())
        kubelets, names = self._two_kubelets()
        before, after = (self._planned(pods, kubelet) for kubelet in kubelets)
        say_ignored(before, after)
        if self.running:
            after = taken_over(before, after, pods, kubelets[1], earlier=kubelets[:1])
        return changes_text([self._chosen(before), self._chosen(after)], names, as_json=self.as_json)

    def _two_kubelets(self) -> tuple[tuple[Kubelet, ...], tuple[str, ...]]:
        """The kubelets before and after the change, and their names in the output."""
        configs = (self.kubelet_config, self.diff_config or self.kubelet_config)
        settings = {config: self.kubelet.settings(config or None) for config in dict.fromkeys(configs)}
        node = self.node.facts()
        release = self._release(node, settings[self.kubelet_config])
        releases, runtimes = self.diff or (release, release), self.runtime.runtimes(runtime_of_node(node))
        kubelets = tuple(
            self.kubelet.kubelet(settings[config], node=node, release=release, runtimes=runtimes)
            for release, config in zip(releases, configs, strict=True)
        )
        names = tuple(
            f"{kubelet.release} with {', '.join(config) or 'no configuration file'}"
            if self.diff_config
            else str(kubelet.release)
            for kubelet, config in zip(kubelets, configs, strict=True)
        )
        return kubelets, names

    def _planned(self, pods: tuple[Pod, ...], kubelet: Kubelet) -> Plan:
        """The plan. Raises ManifestError for a pod that the rules do not model: a plan never leaves values out."""
        plan = expect(pods, kubelet, fit=self.node.said)
        for pod in pods:
            if pod.uid in plan.unmodelled:
                step = f"Leave the pod out, or set featureGates.{Gate.DRA_NODE_RESOURCES} to false."
                what = f"pod {pod.namespace}/{pod.name}: {plan.unmodelled[pod.uid]}."
                raise ManifestError.at(what, file=pod.file, field="spec.resourceClaims", next_step=step)
        return plan

    def _manifests(self) -> Manifests:
        return self.manifests.load(self.files)

    def _pods(self, found: Manifests) -> tuple[Pod, ...]:
        pods = pods_of_one_node(found.pods, self.node_name)
        return tuple(replace(pod, static=True) for pod in pods) if self.static else pods

    def _kubelet(self) -> Kubelet:
        """The kubelet, for an answer about one."""
        settings, node = self.kubelet.settings(self.kubelet_config or None), self.node.facts()
        return self.kubelet.kubelet(
            settings,
            node=node,
            release=self._release(node, settings),
            runtimes=self.runtime.runtimes(runtime_of_node(node)),
        )

    def _release(self, node: NodeFacts, settings: KubeletSettings) -> str:
        """The release: the option's, else that of the Node's kubelet, else the one in kubeadm's file."""
        found = self.kubernetes or node.kubelet or settings.kubernetes
        if not found and not self.diff:
            raise click.UsageError("Missing option '--kubernetes': the release, such as 1.36.")
        return found


def _with_one_knob(cgroup: dict[str, Any], knob: Knob) -> dict[str, Any]:
    return {**cgroup, "knobs": {name: one for name, one in cgroup["knobs"].items() if name == knob.value}}


def _knob(name: str | None) -> Knob | None:
    if name is None:
        return None
    try:
        return Knob(name)
    except ValueError:
        raise UnknownNameError.of("interface file", name, [knob.value for knob in Knob], where="--why") from None
