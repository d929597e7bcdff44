"""`memqos record`: a node on which a kubelet runs, read into a file that `memqos audit` judges."""

from __future__ import annotations

import click

from memqos.cli.terminal import say_document
from memqos.place.recording import recorded_at
from memqos.target.opening import check_url

__all__ = ["command"]

HELP = """Record a node: what its control files hold now, its containers, and what its kubelet was told.

The node is read and nothing is written on it: it is asked for the files of its cgroups, for the runtime's lists of
pods and containers, and for its kubelet's release and configuration. The recording goes to standard output.
docs/reference/recorded-trees.md says what it holds. The pods' manifests are given to the audit.

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
    "--cri-socket", default="", metavar="PATH", help="Where its runtime listens, if its kubelet does not say."
)
def command(*, target: str, cri_socket: str) -> int:
    """The page of `memqos record`."""
    check_url(target, where="--target")
    say_document(recorded_at(target, cri_socket=cri_socket))
    return 0
