"""`memqos explore`: random pods, configurations and requests on a machine; what goes wrong, shrunk to the smallest."""

from __future__ import annotations

import functools
import importlib.util
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from memqos.cli.settings import MACHINE, setting_option, settings_from
from memqos.cli.terminal import say
from memqos.config.table import SETTINGS
from memqos.enactor.registry import MEMQOS, require_enactor
from memqos.errors import EnvironmentNotAbleError, UsageError

__all__ = ["command"]

HELP = """Draw random pods, kubelet configurations and requests, judge what the machine makes of them, and shrink what
deviates to the smallest example.

Examples are pods of every kind (init containers, sidecars, overhead, pod-level resources, amounts of every size and
spelling), resizes, restarts of the kubelet with another configuration, and lifecycles of a container: create, update,
exec, restart, daemon-reload, in random order. One machine tries many at the same time, and every interface file is
judged. A deviation is tried again with ever smaller examples; the smallest one is printed with the command that repeats
it. Known deviations are reported as known.

\b
Examples:
  memqos explore                                    ten minutes with containerd and runc
  memqos explore --runtime oci:crun --minutes 30    a runtime without a daemon: three times as many containers
  memqos explore --runtime-binary ./my-runc --database found   your runtime; findings are kept in the folder found
  memqos explore --kubernetes 1.36 --kubelet-config kubelet.yaml   one kubelet, random pods
  memqos explore --kubelet-binary ./kubelet         your kubelet, random pods and configurations
  memqos explore --runtime oci:runc --against crun  the same requests to two runtimes: what differs
  memqos explore --kernel                           the kernel alone: trees of cgroups under pressure
  memqos explore --replay found/pods-container-memory.min.json     one example again
  memqos explore --expect                           plan and audit random pods, without a machine

The session ends after --minutes, or with Ctrl-C, which loses nothing. With --database, the findings of earlier sessions
are tried first. The same --seed draws the same examples.
"""

_MACHINE = (
    *MACHINE, "profile", "target", "cri-socket", "driver", "kubernetes", "kubelet-binary", "runtime-version", "known",
    "parallel",
)  # fmt: skip
_SETTINGS = [one for one in SETTINGS if one.name in _MACHINE]
_EXTRA = "hypothesis"
KINDS = ("pods", "resize", "restart", "lifecycle", "kernel")
"""The kinds of examples, which a test compares with `exploration.examples`: importing that takes long."""


def _explore(
    *,
    minutes: float,
    seed: int | None,
    database: str | None,
    as_json: str | None,
    replay: str | None,
    against: str | None,
    enactor: str,
    kubelet_config: str | None,
    kind: tuple[str, ...],
    kernel: bool,
    engine_alone: bool,
    **given: Any,
) -> int:
    if importlib.util.find_spec(_EXTRA) is None:
        raise EnvironmentNotAbleError(
            "memqos explore needs hypothesis, which is not installed.", next_step="pip install 'memqos[explore]'"
        )
    from memqos.exploration.explore import Order, explored, explored_engine  # noqa: PLC0415 - hypothesis may be missing

    if kernel and kind:
        raise UsageError("--kernel draws trees of cgroups alone: leave out --kind.")
    require_enactor(enactor)
    settings = settings_from(given)
    order = Order(
        settings=settings,
        minutes=minutes,
        seed=random.SystemRandom().randrange(1 << 32) if seed is None else seed,
        database=Path(database) if database else None,
        replay=Path(replay) if replay else None,
        against=against or "",
        enactor=enactor,
        kubelet_config=Path(kubelet_config) if kubelet_config else None,
        kinds=("kernel",) if kernel else kind,
    )
    keep = functools.partial(_write, to=as_json)
    if engine_alone:
        if kernel:
            raise UsageError("--expect uses no machine, and --kernel needs one.", next_step="Leave out one of them.")
        if replay or against:
            raise UsageError("--expect uses no machine: leave out --replay and --against.")
        return explored_engine(order, say, keep)
    return explored(order, say, keep)


def _write(document: Mapping[str, Any], *, to: str | None) -> None:
    """Write the report as JSON to this file, - for standard output; None writes nothing."""
    if to is None:
        return
    text = json.dumps(document, indent=1)
    if to == "-":
        click.echo(text)
        return
    try:
        Path(to).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.strerror}.", where=to, next_step="Give another --json FILE.") from None


command = click.Command(
    name="explore",
    help=HELP,
    callback=_explore,
    params=[
        click.Option(
            ["--minutes"],
            type=click.FloatRange(min=0, min_open=True),
            default=10.0,
            show_default=True,
            metavar="N",
            help="End the session after this many minutes; a finding that is still being shrunk is kept as it is.",
        ),
        click.Option(["--seed"], type=click.IntRange(min=0), metavar="N", help="Draw the examples of this seed."),
        click.Option(
            ["--database"],
            metavar="DIR",
            help="Keep each finding as a file in this folder, and try its findings first. A team may share it.",
        ),
        click.Option(
            ["--replay"], metavar="FILE", help="Try the example in this file of a database, and nothing else."
        ),
        click.Option(
            ["--against"],
            metavar="RUNTIME|PROFILE",
            help="Also try every example on this runtime (a name or a path) or profile, and report differences.",
        ),
        click.Option(
            ["--kubelet-config"],
            metavar="FILE",
            help="The KubeletConfiguration of every kubelet. Default: random ones.",
        ),
        click.Option(
            ["--kind"],
            type=click.Choice(KINDS),
            multiple=True,
            help="Draw only examples of this kind; may be given several times. Default: all but kernel.",
        ),
        click.Option(
            ["--kernel"],
            is_flag=True,
            help="Test the kernel alone: draw trees of cgroups under memory pressure, without pods and runtime, and "
            "compare with the models of protection and throttling.",
        ),
        click.Option(
            ["--enactor"], default=MEMQOS, show_default=True, metavar="NAME", help="Enactor that carries out the plans."
        ),
        click.Option(
            ["--expect", "engine_alone"],
            is_flag=True,
            help="Use no machine: plan random pods, and audit the plan's own tree, which must conform everywhere.",
        ),
        click.Option(["--json", "as_json"], metavar="FILE", help="Write the report as JSON; - for standard output."),
        *map(setting_option, _SETTINGS),
    ],
)
