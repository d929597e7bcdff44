"""`memqos vectors`: literal cases of what kubelets write, for table tests of other programs."""

from __future__ import annotations

from typing import Any

import click

from memqos.catalog.exported_vectors import VectorSource, exported_vectors
from memqos.catalog.node_facts import load_facts
from memqos.cli.terminal import KnownVerbs, say_document
from memqos.engine.releases.release import Variant

__all__ = ["command"]

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
