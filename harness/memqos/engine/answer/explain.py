"""Sentences and plain-text tables for people: a finding, a reason chain, a whole plan. Text only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from memqos.engine.answer.finding import Finding, Verdict, subject_of
from memqos.engine.kubelet import Kubelet
from memqos.engine.plan import Expected, Plan, PlannedCgroup, PlannedPod, Reason, RefusedBy
from memqos.engine.pod.alike import unexplained_files
from memqos.engine.pod.sums import UNBOUNDED
from memqos.engine.releases.release import titled
from memqos.engine.translate.container import translate
from memqos.engine.translate.explain import Language, knob_lines, translation_lines
from memqos.engine.translate.runtimes import Runtimes
from memqos.model.knob import ABSENT, Bytes, Knob, KnobValue, knobs_of
from memqos.model.node import CgroupVersion

__all__ = [
    "failure",
    "knob_reasons",
    "one_line",
    "plan_tree",
    "reason_lines",
    "shown_amount",
    "size",
    "translations_text",
    "with_pods",
]

MOUNT = "/sys/fs/cgroup"
_ON_V1_ALONE = frozenset(knobs_of(CgroupVersion.V1)) - frozenset(knobs_of(CgroupVersion.V2))
_REFUSED = "the runtime refuses to create it"
_NARROWEST = len("memory.swap.max") + 2
_KI, _MI = 1 << 10, 1 << 20


def shown_amount(value: KnobValue) -> str:
    """A value with its size in KiB or MiB behind it, if it is an amount of bytes."""
    shown = size(value)
    return f"{value} ({shown})" if shown else str(value)


def size(value: KnobValue) -> str:
    """Bytes in MiB (to a tenth) or KiB: "190 MiB"; "" if that adds nothing."""
    if value == Bytes(UNBOUNDED):
        return "2^62, no limit"
    if isinstance(value, Bytes) and value.count >= _MI:
        return f"{f'{value.count / _MI:.1f}'.removesuffix('.0')} MiB"
    if isinstance(value, Bytes) and value.count and value.count % _KI == 0:
        return f"{value.count // _KI} KiB"
    return ""


def one_line(text: str) -> str:
    """A text, perhaps read from a file, without its line breaks."""
    return text.replace("\n", "\\n")


def reason_lines(reason: Reason, *, indent: str = "") -> list[str]:
    """A reason chain as lines: the rule, its revision and source, inputs with their origins, arithmetic, rounding."""
    lines = [f"{indent}{reason.rule}"] if reason.rule else []
    if reason.revision or reason.source:
        lines.append(f"{indent}  source   {'; '.join(part for part in (reason.revision, reason.source) if part)}")
    lines += [f"{indent}  given    {one.name} = {one.value}  [{one.origin}]" for one in reason.inputs]
    if reason.arithmetic:
        lines.append(f"{indent}  sum      {reason.arithmetic}")
    if reason.rounding:
        lines.append(f"{indent}  rounding {reason.rounding}")
    for one in reason.because:
        lines.append(f"{indent}  because")
        lines += reason_lines(one, indent=f"{indent}    ")
    return lines


def failure(finding: Finding, *, mount: str = MOUNT) -> str:
    """A finding as text: expected and observed value, the reason, and a command to check it."""
    head = {
        Verdict.CONFORMS: f"{finding.knob} of {finding.subject} is {finding.observed}, as expected",
        Verdict.DEVIATES: f"{finding.knob} of {finding.subject} is {finding.observed}, expected {finding.expected}",
        Verdict.KNOWN: f"{finding.knob} of {finding.subject} is {finding.observed}, known, expected {finding.expected}",
        Verdict.NOT_OBSERVABLE: f"{finding.knob} of {finding.subject} could not be observed: {finding.why_not}",
    }[finding.verdict]
    lines = [one_line(head), f"  cgroup   {finding.cgroup}"]
    if finding.verdict in {Verdict.DEVIATES, Verdict.KNOWN}:
        lines.append(f"  set by   {finding.set_by}")
    if finding.lost is not None:
        lines.append(f"  hops     {one_line(finding.lost.told)}")
    if finding.verdict is Verdict.NOT_OBSERVABLE:
        lines.append(f"  expected {finding.expected}")
    if finding.reason is not None and finding.verdict is not Verdict.CONFORMS:
        lines += reason_lines(finding.reason, indent="  ")
    lines += [f"  seen     {name}: {text}" for name, text in finding.evidence.items()]
    # Only interface files have a dot in their name: an exit code or oom_score_adj is not in the cgroup.
    if finding.verdict is not Verdict.CONFORMS and finding.cgroup.startswith("/") and "." in finding.knob:
        hierarchy = f"/{Knob(finding.knob).controller}" if finding.knob in _ON_V1_ALONE else ""
        lines.append(f"  look     cat {mount}{hierarchy}{finding.cgroup.rstrip('/')}/{finding.knob}")
    return "\n".join(lines)


def plan_tree(plan: Plan, *, mount: str = MOUNT, above: bool = True) -> str:
    """The plan as a tree: every cgroup with its written files, and those that keep the kernel's default.

    above: whether to show the cgroups above pods.
    """
    lines = [
        f"Kubernetes {titled(plan.release)}, cgroup driver {plan.driver}, below {_below(plan, mount)}",
        f"rules: {', '.join(plan.revisions.values())}",
    ]
    files = _FileLines()
    for cgroup in (*plan.reserved, plan.node, *plan.qos) if above else ():
        lines += ["", str(subject_of(cgroup)), f"  {cgroup.path}", *files.of(cgroup.knobs, "  ")]
    for pod in plan.pods:
        own = pod.cgroup
        lines += ["", f"{subject_of(own, pod)} ({pod.qos})", f"  {own.path}", *files.of(own.knobs, "  ")]
        for container in pod.containers:
            lines.append(f"  {subject_of(container.cgroup, pod)}, oom_score_adj {container.oom_score_adj}")
            lines += files.of(container.cgroup.knobs, "    ")
            if container.refusal:
                lines.append(f"    {_REFUSED}: {container.refusal}")
    for refusal in plan.refusals:
        by = "" if refusal.by is RefusedBy.KUBELET else f" by the {refusal.by}"
        lines += ["", f"pod {refusal.name or refusal.pod} is refused{by}: {refusal.reason_name}: {refusal.message}"]
        lines += reason_lines(refusal.reason, indent="  ")
    return "\n".join(lines)


def _below(plan: Plan, mount: str) -> str:
    if plan.cgroup_version is CgroupVersion.V2:
        return mount
    return f"{mount}/<controller> (cgroup v1: the first word of a file's name is its hierarchy)"


class _FileLines:
    """The lines about cgroups' files, cached for cgroups that share a plan."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Mapping[Knob, Expected], list[str]]] = {}

    def of(self, knobs: Mapping[Knob, Expected], indent: str) -> list[str]:
        """The lines of these files; callers use the same indentation for the same mapping."""
        knobs = unexplained_files(knobs)
        # The entry keeps the mapping alive, so that no other object can get its id.
        found = self._made.get(id(knobs))
        if found is None:
            found = self._made[id(knobs)] = knobs, list(_file_lines(knobs, indent))
        return found[1]


def _file_lines(knobs: Mapping[Knob, Expected], indent: str) -> Iterator[str]:
    left_open: dict[str, list[Knob]] = {}
    for one in knobs.values():
        if one.unmodelled:
            left_open.setdefault(one.unmodelled, []).append(one.knob)
    open_ = {one.knob for one in knobs.values() if one.undecided or one.unsettled}
    shown = [one for one in knobs.values() if not one.unmodelled]
    left_alone = [one for one in shown if one.written is ABSENT and one.knob not in open_]
    written = [one for one in shown if one.written is not ABSENT or one.knob in open_]
    width = max([_NARROWEST, *(len(one.knob) for one in written)])
    sized = (one.written for one in written if size(one.written) and one.written != Bytes(UNBOUNDED))
    values = max((len(str(value)) for value in sized), default=0)
    for one in written:
        plain = one.knob not in open_ and one.value == one.written
        text = f"{one.written!s:<{values}}  {size(one.written)}".rstrip() if plain else written_text(one)
        yield f"{indent}{one.knob:<{width}} {text}"
    if left_alone:
        yield f"{indent}not written: {', '.join(f'{one.knob} {one.value}' for one in left_alone)}"
    for why, several in left_open.items():
        yield f"{indent}not observable: {', '.join(several)}: {why}"


def written_text(expected: Expected) -> str:
    """The written value, and the file's text if it differs; all values if runtime versions differ.

    An unsettled value is followed by the reason.
    """
    if expected.undecided:
        text = " or ".join(map(shown_amount, expected.undecided))
    elif expected.value == expected.written:
        text = shown_amount(expected.written)
    else:
        text = f"{shown_amount(expected.written)}, reads {shown_amount(expected.value)}"
    return f"{text}; not certain: {expected.unsettled}" if expected.unsettled else text


def knob_reasons(plan: Plan, knob: Knob, *, translated_for: Kubelet | None = None) -> str:
    """The reason chains of one knob in every cgroup that plans it, or the reason why no cgroup does.

    translated_for: the kubelet whose container requests are shown at each hop too, None for none.
    """
    parts: list[str] = []
    containers = {(pod.uid, one.name): one for pod in plan.pods for one in pod.containers}
    for cgroup, pod in with_pods(plan):
        expected = cgroup.knobs.get(knob)
        own = containers.get((cgroup.pod, cgroup.container))
        said: list[str] = []
        if own is not None and translated_for is not None:
            translation = translate(own.carried_out, _runtimes(pod, translated_for), translated_for.host)
            said = knob_lines(own.resources, translation, knob, indent="  ")
        if own is not None and own.refusal:
            head = f"{knob} of {subject_of(cgroup, pod)}: {_REFUSED}: {own.refusal}"
            parts.append("\n".join([head, *said]))
            continue
        if expected is None:
            continue
        kept = expected.written is ABSENT and not (expected.undecided or expected.unsettled)
        text = f"not written, reads {shown_amount(expected.value)}" if kept else written_text(expected)
        text = "not observable" if expected.unmodelled else text
        head = f"{knob} of {subject_of(cgroup, pod)}: {text}"
        parts.append("\n".join([head, *reason_lines(expected.reason, indent="  "), *said]))
    if not parts and knob in plan.unavailable:
        return "\n".join(reason_lines(plan.unavailable[knob]))
    return "\n\n".join(parts)


def _runtimes(pod: PlannedPod | None, kubelet: Kubelet) -> Runtimes:
    return kubelet.runtimes if pod is None or pod.runtimes is None else pod.runtimes


def translations_text(plan: Plan, languages: Iterable[Language], kubelet: Kubelet) -> str:
    """Every container's request in these languages, with the fields that each cannot express."""
    chosen = tuple(dict.fromkeys(languages))
    parts: list[str] = []
    for pod in plan.pods:
        for one in pod.containers:
            translation = translate(one.carried_out, _runtimes(pod, kubelet), kubelet.host)
            lines = translation_lines(one.resources, translation, chosen, indent="  ")
            parts.append("\n".join([str(subject_of(one.cgroup, pod)), *lines]))
    return "\n\n".join(parts)


def with_pods(plan: Plan) -> Iterable[tuple[PlannedCgroup, PlannedPod | None]]:
    """Every planned cgroup with its pod, parents before children."""
    for cgroup in (*plan.reserved, plan.node, *plan.qos):
        yield cgroup, None
    for pod in plan.pods:
        yield pod.cgroup, pod
        for container in pod.containers:
            yield container.cgroup, pod
