"""`memqos audit`: compares live or recorded nodes with the plan for their kubelets; it only reads them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import click

from memqos.audits.answer import Audit
from memqos.cli.audit_places import AuditOrder
from memqos.cli.manifest_options import ManifestOptions, manifest_options
from memqos.cli.node_options import (
    KubeletOptions,
    NodeOptions,
    RuntimeOptions,
    kubelet_options,
    node_options,
    runtime_options,
)
from memqos.cli.terminal import say, say_document, say_ignored
from memqos.errors import ExitCode, MemqosError, UsageError

__all__ = ["command"]

HELP = """Judge nodes on which kubelets run pods: does every interface file hold what the kubelet's rules require?

A PLACE is a recording (docs/reference/recorded-trees.md), as `memqos collect` writes it, a folder of recordings, or a
node that is only read: ssh://[USER@]HOST, local://, docker://NAME for one of kind, kubectl://NODE. Configuration, node
facts, runtimes, release and pods come from the node or the recording, unless an option overrides them.

\b
Examples:
  memqos audit node7.json
  memqos audit nodes/ --json                     a row for each node, and the deviations by cause
  memqos audit ssh://root@node7 kubectl://node8
  memqos audit node7.json --state --oom          the current effect of memory QoS, and the order of OOM kills
  memqos audit node7.json --what-if --kubernetes 1.37 --set memoryThrottlingFactor=0.8
  memqos audit ssh://root@node7 --watch
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 | memqos audit --target ssh://root@node7 --pods -
  memqos audit node7.json --was-config before.yaml --was-pods pods-before.yaml

On a live node a value deviates only if two readings have it. Pods of a cluster are judged by what their kubelet has
allocated (status), not by their spec. The output names every file that deviates, with the reasons for the expected
value. A known bug of the kubelet's release is reported as known. Exit codes: 0 nothing deviates, 1 something deviates,
3 a node could not be read, 5 nothing could be observed.
"""


@click.command(name="audit", help=HELP)
@click.option("--target", metavar="URL", help="A machine, as for run; kubectl://POD is a pod that exists.")
@click.option("--cri-socket", default="", metavar="PATH", help="Where the node's runtime listens; see collect.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 120),
    metavar="SECONDS",
    help="How long a live node's kubelet and runtime may take for each answer. Default: 0.7; a busy node needs more.",
)
@click.option("--tree", metavar="FILE", help="A recorded tree (JSON) instead of a node.")
@click.option("--kubernetes", metavar="X.Y", help="The Kubernetes release. Default: that of the node's kubelet.")
@click.option(
    "--pods",
    multiple=True,
    metavar="FILE",
    help="Manifests, or folders of them, as for expect, or what `kubectl get pods -o json` or the kubelet's /pods "
    "print; may be repeated. Default: the recorded pods.",
)
@click.argument("places", nargs=-1, metavar="[PLACE]...")
@click.option(
    "--kubelet-config",
    multiple=True,
    metavar="FILE|FOLDER",
    help="The kubelet's configuration, as for expect; may be repeated. Default: the node's, with its command line.",
)
@kubelet_options
@manifest_options
@node_options
@runtime_options
@click.option(
    "--was-config",
    multiple=True,
    metavar="FILE",
    help="The KubeletConfiguration that the node had when its pods were created, as for --kubelet-config: values that "
    "it explains are not findings about the runtime or the kubelet.",
)
@click.option(
    "--was-pods",
    multiple=True,
    metavar="FILE",
    help="The pods before they were resized in place; may be repeated.",
)
@click.option(
    "--static", is_flag=True, help="All pods are static: the kubelet reads them from files, so they are critical."
)
@click.option("--jobs", type=click.IntRange(0, 256), default=0, help="Nodes judged at once. Default: one for each CPU.")
@click.option(
    "--settle",
    type=click.FloatRange(0, 600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between the two readings of a live node; a value must deviate in both. With 0, sums above pods are "
    "not observable.",
)
@click.option("--state", "with_state", is_flag=True, help="Also print the current effect of memory QoS on the node.")
@click.option("--oom", is_flag=True, help="With --state: the order of OOM kills, host daemons included.")
@click.option(
    "--what-if",
    "supposing",
    is_flag=True,
    help="Print what another release (--kubernetes) or configuration (--set, --kubelet-config) would change on the "
    "node, pod by pod, at the current usage.",
)
@click.option("--watch", is_flag=True, help="Read the node again and again, and print values that drift or return.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Seconds between readings of --watch.",
)
@click.option("--looks", type=click.IntRange(1), help="End --watch after this many readings. Default: at Ctrl-C.")
@click.option("--metrics", metavar="FILE", help="Write Prometheus text, for node_exporter's textfile collector.")
@click.option("--sarif", metavar="FILE", help="Write SARIF 2.1.0.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML: a suite for each node, a case for each pod.")
@click.option("--html", metavar="FILE", help="Write an HTML page: causes, a table of all nodes, their deviations.")
@click.option("--json", "as_json", is_flag=True, help="Print every finding as JSON; of several nodes, the deviations.")
def command(**given: Any) -> int:
    """The page of `memqos audit`."""
    runtime = RuntimeOptions(**{field.name: given.pop(field.name) for field in fields(RuntimeOptions)})
    kubelet = KubeletOptions(**{field.name: given.pop(field.name) for field in fields(KubeletOptions)})
    manifests = ManifestOptions(**{field.name: given.pop(field.name) for field in fields(ManifestOptions)})
    node = NodeOptions(**{field.name: given.pop(field.name) for field in fields(NodeOptions)})
    show = _Show(**{field.name: given.pop(field.name) for field in fields(_Show)})
    places = given.pop("places")
    # With --tree and --target further words are pods, so that `--pods *.yaml` works.
    alone = given["tree"] is not None or given["target"] is not None or not places
    order = AuditOrder(
        files=places if alone else (), runtime=runtime, kubelet=kubelet, manifests=manifests, node=node, **given
    )
    order.check_standard_input()
    show.check(order, several=len(places) > 1 and not alone)
    if show.watch:
        from memqos.cli.audit_places import drift_watched

        return drift_watched(order, () if alone else places, every=show.every, looks=show.looks, as_json=show.as_json)
    if not alone:
        return _places(order, places, show)
    return _one(order, order.audit(order.given_pods()), show)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Show:
    """What an audit prints and writes."""

    as_json: bool
    jobs: int
    with_state: bool
    oom: bool
    watch: bool
    every: float
    looks: int | None
    metrics: str | None
    sarif: str | None
    junit: str | None
    html: str | None

    @property
    def exports(self) -> dict[str, str | None]:
        """The written files, by format."""
        return {"metrics": self.metrics, "sarif": self.sarif, "junit": self.junit, "html": self.html}

    def check(self, order: AuditOrder, *, several: bool) -> None:
        """UsageError for options that cannot be combined."""
        if order.supposing and not (order.kubernetes or order.kubelet_config or order.kubelet.overrides):
            step = "Add --kubernetes X.Y, --set KEY=VALUE or --kubelet-config FILE."
            raise UsageError("no change is given.", where="--what-if", next_step=step)
        if (order.supposing or self.with_state) and several:
            raise UsageError("it takes one node.", where="--what-if" if order.supposing else "--state")
        if self.watch and (written := next((f"--{name}" for name, file in self.exports.items() if file), "")):
            raise UsageError("it cannot be combined with --watch.", where=written)
        if self.looks is not None and not self.watch:
            raise UsageError("it needs --watch.", where="--looks")


def _places(order: AuditOrder, words: tuple[str, ...], show: _Show) -> int:
    from memqos.audits.fleet import Fleet, row_of_error
    from memqos.cli.audit_places import Judged, judged_places, places_in, write_exports

    places = places_in(words)
    if len(places) > 1 and (order.supposing or show.with_state):
        raise UsageError("it takes one node.", where="--what-if" if order.supposing else "--state")
    try:
        found = judged_places(order, places, jobs=show.jobs, with_states=show.metrics is not None)
    except MemqosError as error:
        write_exports(Judged(fleet=Fleet(rows=(row_of_error(places[0], error),)), states={}), **show.exports)
        raise
    write_exports(found, **show.exports)
    if found.audit is not None:
        return _one(order, found.audit, replace(show, metrics=None, sarif=None, junit=None, html=None))
    if show.as_json:
        say_document(found.fleet.document())
    else:
        say(found.fleet.text())
    return found.fleet.exit_code


def _one(order: AuditOrder, answer: Audit, show: _Show) -> int:
    """Print the audit of one node."""
    if any(path is not None for path in show.exports.values()):
        _export(answer, show)
    say_ignored(answer.plan)
    tree = answer.question.tree
    if answer.exit_code is ExitCode.NOTHING_OBSERVED and tree.driver is None:
        say("memqos: note: the cgroups have the names of both drivers, or of neither: give --driver.", err=True)
    if order.supposing:
        return _what_if(order, answer, show)
    if show.as_json:
        say_document(answer.document())
        return answer.exit_code
    say(answer.text())
    if show.with_state or show.oom:
        from memqos.audits.node_answers import state_text
        from memqos.audits.node_state import node_state

        say("\n" + state_text(node_state(answer), kills=show.oom))
    return answer.exit_code


def _what_if(order: AuditOrder, answer: Audit, show: _Show) -> int:
    from memqos.audits.what_if import what_if, what_if_document, what_if_text

    named = [f"Kubernetes {order.kubernetes}"] if order.kubernetes else []
    named += [f"--set {one}" for one in order.kubelet.overrides]
    named += [", ".join(order.kubelet_config)] if order.kubelet_config else []
    found = what_if(answer, order.supposed(answer), name=", ".join(named))
    if show.as_json:
        say_document({"memqos_format": 1, "tree": answer.question.tree.source, **what_if_document(found)})
    else:
        say(what_if_text(found))
    return ExitCode.CONFORMS


def _export(answer: Audit, show: _Show) -> None:
    from memqos.audits.fleet import Fleet, row_of
    from memqos.audits.node_state import node_state
    from memqos.cli.audit_places import Judged, write_exports

    place = answer.question.tree.source
    state = {place: node_state(answer)} if show.metrics is not None else {}
    judged = Judged(fleet=Fleet(rows=(row_of(place, answer),)), states=state, audit=answer)
    write_exports(judged, **show.exports)
