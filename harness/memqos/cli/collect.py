"""`memqos collect`: reads a node on which a kubelet runs into a file that `memqos audit` judges."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from memqos.cli.terminal import say, say_document
from memqos.errors import UsageError
from memqos.place.collecting import check_place, collected_at, collected_through, program
from memqos.target.opening import check_url

__all__ = ["command"]

HELP = """Collect a node: its interface files, counters, containers and pods, and its kubelet's configuration.

It only reads the node. One program, which needs nothing but Python 3.6, runs there and prints a JSON document
(docs/reference/recorded-trees.md); --print shows the program. Environment variables, commands, secrets and annotations
that write no cgroup are not collected. A node without Python is read by shell commands, without its counters.

\b
Examples:
  memqos collect ssh://root@node7 > node7.json
  memqos collect kubectl://node7 > node7.json           by a pod without rights on the node
  memqos collect docker://kind-control-plane > kind.json
  memqos collect local:///host > node.json              in a pod that has the node's /proc and /sys below /host
  memqos collect --print > memqos-collect.py            then, on the node: python3 memqos-collect.py > node7.json
  memqos audit node7.json

`memqos audit PLACE` collects and judges at once. `memqos record` is another name of this command.
"""


@click.command(name="collect", help=HELP)
@click.argument("place", required=False, metavar="[PLACE]")
@click.option(
    "--target",
    metavar="URL",
    help="A machine as for run: ssh://[USER@]HOST, local://, docker://NAME, kubectl://POD (a pod that exists).",
)
@click.option(
    "--cri-socket", default="", metavar="PATH", help="Where the runtime listens, if the kubelet does not say."
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 120),
    metavar="SECONDS",
    help="How long the kubelet and the runtime may take for each answer. Default: 0.7; a busy node needs more.",
)
@click.option("--print", "as_program", is_flag=True, help="Print the program that runs on nodes, and do nothing.")
@click.option("--output", metavar="FILE", help="Write the recording there, readable by you alone.")
def command(
    *,
    place: str | None,
    target: str | None,
    cri_socket: str,
    timeout: float | None,
    as_program: bool,
    output: str | None,
) -> int:
    """The page of `memqos collect`."""
    if as_program:
        sys.stdout.write(program())
        return 0
    if (place is None) is (target is None):
        raise UsageError(
            "no node is given." if place is None else "PLACE and --target name two nodes.",
            where="memqos collect",
            next_step="Give a PLACE, such as ssh://root@node7.",
        )
    if target is not None:
        check_url(target, where="--target")
        document = collected_through(target, cri_socket=cri_socket, timeout=timeout)
    else:
        check_place(str(place))
        document = collected_at(str(place), cri_socket=cri_socket, timeout=timeout)
    for name, why in dict(document.get("notes", {})).items():
        say(f"memqos: note: {name}: {why}", err=True)
    if output is None:
        say_document(document)
        return 0

    try:
        with os.fdopen(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(document, file)
    except OSError as error:
        what = f"the file '{output}' cannot be written: {(error.strerror or str(error)).lower()}."
        raise UsageError(what, where="--output", next_step="Use a writable path.") from None
    say(f"{Path(output)}: {len(document.get('cgroups', {}))} cgroups")
    return 0
