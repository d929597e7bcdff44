"""The answers of `memqos expect --diff` and `--diff-config`: how two plans for the same pods differ.

Also of `memqos expect --resize`: pods whose resources change while they run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memqos.cli.node_options import said_of_containers, usage_of
from memqos.engine.answer.difference import differences, differences_document, differences_text
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Plan
from memqos.engine.resize import Activity, Usage, resize_pods, taken_over
from memqos.engine.resize.outcome import resize_document, resize_reasons, resize_text
from memqos.errors import UnknownNameError
from memqos.model.knob import Knob
from memqos.model.pod import Pod

__all__ = ["ResizeQuestion", "changes_text", "resizes_text"]


def changes_text(plans: Sequence[Plan], names: Sequence[str], *, as_json: bool) -> str:
    """The answer about two plans with these names."""
    before, after = plans
    found = differences(before, after)
    if as_json:
        return json.dumps(differences_document(found, *names), indent=1)
    return differences_text(found, *names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeQuestion:
    """Pods that change while they run, under the last of these kubelets.

    kubelets: the one that created the pods first, if that was another. plans: theirs. names: those of the two kubelets.
    usage, states: the options' texts.
    """

    pods: tuple[Pod, ...]
    desired: tuple[Pod, ...]
    kubelets: tuple[Kubelet, ...]
    plans: tuple[Plan, ...]
    names: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


def resizes_text(question: ResizeQuestion, *, knob: Knob | None, as_json: bool) -> str:
    """The answer. knob: explain only this file; None for the whole answer.

    Raises UnknownNameError for an unknown container or state.
    """
    pods, kubelet = question.pods, question.kubelets[-1]
    first, *later = question.plans
    standing = taken_over(first, later[0], pods, kubelet, earlier=question.kubelets[:-1]) if later else None
    found = resize_pods(
        pods,
        question.desired,
        kubelet,
        usage=_pod_usage(usage_of(question.usage, first, kubelet.node), pods),
        activities=_activities(question.states, first),
        standing=standing,
    )
    changed = differences(first, standing) if standing is not None else ()
    if as_json:
        document = resize_document(found)
        if standing is not None:
            document["succession"] = differences_document(changed, *question.names)["changes"]
        return json.dumps(document, indent=1)
    if knob is not None:
        return resize_reasons(found, knob)
    head = [differences_text(changed, *question.names)] if standing is not None else []
    return "\n\n".join([*head, resize_text(found)])


def _activities(texts: tuple[str, ...], plan: Plan) -> dict[str, dict[str, Activity]]:
    """The states of containers, by pod uid and name."""
    found: dict[str, dict[str, Activity]] = {}
    for (uid, name), word in said_of_containers(texts, plan, "--state"):
        if word not in list(Activity):
            raise UnknownNameError.of("state of a container", word, list(Activity), where="--state")
        found.setdefault(uid, {})[name] = Activity(word)
    return found


def _pod_usage(used: Mapping[tuple[str, str], int], pods: tuple[Pod, ...]) -> dict[str, Usage]:
    """By pod: what its containers use, and the pod as a whole if each of its containers was named."""
    found = {}
    for pod in pods:
        own = {name: size for (uid, name), size in used.items() if uid == pod.uid}
        whole = all(one.name in own for one in pod.containers)
        found[pod.uid] = Usage(pod=sum(own.values()) if whole else None, containers=own)
    return found
