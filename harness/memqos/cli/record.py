"""`memqos record`: reads a node on which a kubelet runs into a file that `memqos audit` judges."""

from __future__ import annotations

import click

from memqos.cli.terminal import say_document
from memqos.place.recording import recorded_at
from memqos.target.opening import check_url

__all__ = ["command"]

HELP = """Record a node: the values of its control files, its containers, and its kubelet's configuration.

It only reads the node: the files of its cgroups, the runtime's lists of pods and containers, and the kubelet's release
and configuration. It prints the recording; docs/reference/recorded-trees.md describes it. Manifests are not part of it:
give them to the audit.

\b
  memqos record --target ssh://root@node7 > node7.json
  kubectl get pods -A -o json --field-selector spec.nodeName=node7 > pods.json
  memqos audit --tree node7.json --pods pods.json

`memqos audit --target URL` does both at once.
"""


@click.command(name="record", help=HELP)
@click.option(
    "--target",
    required=True,
    metavar="URL",
    help="The node: ssh://[USER@]HOST, local://, docker://NAME for one of kind, kubectl://POD.",
)
@click.option(
    "--cri-socket",
    default="",
    metavar="PATH",
    help="The runtime's socket, if the kubelet's configuration does not name it.",
)
def command(*, target: str, cri_socket: str) -> int:
    """The page of `memqos record`."""
    check_url(target, where="--target")
    say_document(recorded_at(target, cri_socket=cri_socket))
    return 0
