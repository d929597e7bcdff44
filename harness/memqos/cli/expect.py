"""`memqos expect`: what every control file must hold for these pods, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.pods import load_pods
from memqos.cli.node_options import NodeOptions, node_options
from memqos.engine.document import plan_document
from memqos.engine.expect import expect
from memqos.engine.explain import knob_reasons, plan_tree
from memqos.engine.plan import Plan
from memqos.engine.release import Variant
from memqos.errors import UnknownNameError, UsageError
from memqos.model.knob import Knob
from memqos.model.node import CgroupDriver
from memqos.model.traits import CONTAINERD_1_7_RUNC_1_1, RuntimeTraits, WeightConversion

__all__ = ["command"]

HELP = """Print what every control file must hold for the pods in FILE… under a kubelet of one release.

FILE is a v1 Pod manifest, or a list of them, in YAML or JSON; - reads standard input. Nothing is run: the values come
from the reference engine, each with its reasons.

\b
  memqos expect pod.yaml --kubernetes 1.36
  memqos expect pod.yaml --kubernetes 1.27 --kubelet-config kubelet.yaml --why memory.high
  memqos expect a.yaml b.yaml --kubernetes 1.36 --capacity-memory 16Gi --swap 4Gi --cpus 8 --json
  memqos expect pod.yaml --kubernetes 1.36 --set featureGates.MemoryQoS=true --set memoryThrottlingFactor=0.8
"""


@click.command(name="expect", help=HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--kubernetes", required=True, metavar="X.Y", help="The Kubernetes release, 1.22 to 1.37.")
@click.option("--kubelet-config", metavar="FILE", help="A KubeletConfiguration (v1beta1); - reads standard input.")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A field on top of the configuration, such as featureGates.MemoryQoS=true; may be repeated.",
)
@click.option(
    "--driver",
    type=click.Choice([driver.value for driver in CgroupDriver]),
    help="Who makes the cgroups; else what the configuration says, else cgroupfs.",
)
@click.option(
    "--as",
    "variant",
    type=click.Choice([variant.value for variant in Variant]),
    default=Variant.SHIPPED.value,
    show_default=True,
    help="Follow the code, or the text of the enhancement, where the two differ.",
)
@click.option("--why", metavar="KNOB", help="Print the reason chain of one control file, like memory.high.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--static", is_flag=True, help="The pods are static: read from files by the kubelet, hence critical.")
@node_options
@click.option(
    "--weight",
    type=click.Choice([conversion.value for conversion in WeightConversion]),
    default=WeightConversion.LINEAR.value,
    show_default=True,
    help="How the OCI runtime makes cpu.weight: quadratic from runc 1.3.2 and crun 1.23 on.",
)
def command(
    files: tuple[str, ...],
    *,
    kubernetes: str,
    kubelet_config: str | None,
    overrides: tuple[str, ...],
    driver: str | None,
    variant: str,
    why: str | None,
    as_json: bool,
    static: bool,
    weight: str,
    **node: Any,
) -> None:
    """The page of `memqos expect`."""
    knob = _knob(why)
    said = NodeOptions(**node)
    if [*files, kubelet_config, said.node_file].count("-") > 1:
        raise UsageError("standard input (-) can be read once only.", where="memqos expect")
    settings = load_settings(kubelet_config, overrides)
    pods = load_pods(files)
    plan = expect(
        tuple(replace(pod, static=True) for pod in pods) if static else pods,
        node=said.facts(),
        settings=settings,
        release=kubernetes,
        driver=CgroupDriver(driver) if driver else None,
        variant=Variant(variant),
        traits=_traits(weight),
    )
    click.echo(_text(plan, Variant(variant), knob, as_json=as_json))


def _text(plan: Plan, variant: Variant, knob: Knob | None, *, as_json: bool) -> str:
    if as_json:
        document = plan_document(plan, variant=variant)
        if knob is not None:
            for cgroup in document["cgroups"]:
                cgroup["knobs"] = {name: one for name, one in cgroup["knobs"].items() if name == knob.value}
        return json.dumps(document, indent=1)
    return plan_tree(plan) if knob is None else knob_reasons(plan, knob)


def _knob(name: str | None) -> Knob | None:
    if name is None:
        return None
    try:
        return Knob(name)
    except ValueError:
        raise UnknownNameError.of("control file", name, [knob.value for knob in Knob], where="--why") from None


def _traits(weight: str) -> RuntimeTraits:
    if weight == WeightConversion.QUADRATIC:
        return RuntimeTraits(name="a runtime with quadratic weights", weight=WeightConversion.QUADRATIC)
    return CONTAINERD_1_7_RUNC_1_1
