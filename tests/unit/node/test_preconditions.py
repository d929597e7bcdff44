"""No behaviour conforms while a knob that it depends on differs from the plan."""

import contextlib
import dataclasses
import functools
import importlib.util
import inspect
import itertools
from pathlib import Path

import pytest

from memqos import claims
from memqos.catalog.kubelets import load_kubelets
from memqos.engine.answer.finding import Setter, Verdict
from memqos.errors import NonconformanceError, UsageError
from memqos.laboratory.evidence import Folder
from memqos.model.knob import MAX, Knob
from memqos.model.node import CgroupVersion
from memqos.model.reading import NoFile
from memqos.node.behaviour import watch
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Preconditions
from memqos.plugin.collection.catalogue import Catalogue
from memqos.plugin.fixtures import Evidence
from memqos.plugin.keys import Notes
from memqos.runtime.fake_cgroups import FAKE_HIERARCHY, FAKE_LEGACY
from tests.unit.node.chapters import called, given_to, scenes_of
from tests.unit.node.fakes import FACTS, FAR, FOUR
from tests.unit.node.memory import MemoryBench, other_values
from tests.unit.node.samples import PLANNED, course, files, sample

SUITES = Path(__file__).parents[3] / "suites"
CATALOGUE = Catalogue()
CLAIMS = claims.load(SUITES)
KUBELETS = {kubelet.id: kubelet for kubelet in load_kubelets()}


SAMPLED = {"test_a_program_whose_text_is_reclaimed_is_stuck", "test_each_pass_counts_seventeen_tries"}
"""The fake kernel has neither text nor passes: test_throttled.py breaks the preconditions of these in samples."""


def watching_tests():
    """Every test of the suites that watches a container, with each kubelet that it names."""
    for file in sorted(SUITES.glob("*/test_*.py")):
        if "qos_node.watched(" not in file.read_text():
            continue
        spec = importlib.util.spec_from_file_location(f"suite_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if "qos_node.watched(" in source_of(function) and name not in SAMPLED:
                marks = {mark.name: mark.args for mark in function.pytestmark}
                for kubelet in marks["kubelet"]:
                    for words, case in variants(function, marks.get("parametrize")):
                        yield pytest.param(case, KUBELETS[kubelet], id=f"{name}-{kubelet}{words}")


def source_of(function):
    """A test's docstring, with the scenes that it uses."""
    return "".join(map(inspect.getsource, (function, *scenes_of(function).values())))


def variants(function, parametrized):
    """A test with each value of its own parameter, and its case's name; once if it has none."""
    if parametrized is None:
        return [("", function)]
    name, values = parametrized
    cases = [(f"-{value}", functools.partial(function, **{name: value})) for value in values]
    for _, case in cases:
        functools.update_wrapper(case, function)
    return cases


def needs_of(function):
    """The needs of the claim that a suite's test cites."""
    [claim] = [mark.args[0] for mark in function.pytestmark if mark.name == "claim"]
    return CLAIMS[claim].needs


def machine_for(function):
    """The facts of a machine with the claim's needs, if it is not the usual one."""
    other = {
        "far NUMA node": {"numa_nodes": FAR},
        "three NUMA nodes": {"numa_nodes": FOUR},
        "distances": {"numa_nodes": FOUR},
        "small swap": {"swap": 112 << 20},
    }
    found = [other[need] for need in needs_of(function) if need in other]
    return {"node": dataclasses.replace(FACTS, **found[0])} if found else {}


def about(function):
    """The subject of the claim that a suite's test cites."""
    [claim] = [mark.args[0] for mark in function.pytestmark if mark.name == "claim"]
    return CLAIMS[claim].about


def findings_of(function, kubelet, folder, breaks=None, *, ignores=""):
    """A suite's test's findings on a node whose containers' cgroups show `breaks`; ignores: as for MemoryBench."""
    # No request of a container has an effect below a bare scope, where its pod's limit is reached.
    ignores = ignores or ("memory.min" if "bare scope" in needs_of(function) else "")
    hierarchy = FAKE_LEGACY if kubelet.cgroup is CgroupVersion.V1 else FAKE_HIERARCHY
    bench = MemoryBench(breaks, ignores=ignores, hierarchy=hierarchy, **machine_for(function))
    notes = Notes()
    given = {
        "qos_node": bench.node,
        "qos_kubelet": kubelet,
        "qos_catalog": CATALOGUE,
        "qos_numa_node": 1,
        "narrow_numa_node": 1,
        "qos_evidence": Evidence(
            notes=notes, folder=Folder(folder), amend=lambda finding: finding, about=about(function)
        ),
    }
    with contextlib.ExitStack() as stack, contextlib.suppress(NonconformanceError, pytest.skip.Exception):
        if "narrow_numa_node" in given_to(function):
            stack.enter_context(bench.node.narrowed(1))
        called(function, given)
    return notes.findings


def test_what_is_left_to_samples_is_a_test_of_a_suite():
    written = "".join(file.read_text() for file in SUITES.glob("*/test_*.py"))
    assert all(f"def {name}(" in written for name in SAMPLED)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr("memqos.node.behaviour.watch.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "WATCH_SECONDS", 5.0)
    monkeypatch.setattr(watch, "STATUS_SECONDS", 0.2)


@pytest.mark.parametrize(("function", "kubelet"), list(watching_tests()))
def test_every_behaviour_conforms_on_a_right_node(function, kubelet, tmp_path):
    findings = findings_of(function, kubelet, tmp_path)

    assert findings
    assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}, findings


def broken_premises():
    """Each of these tests with each knob that it depends on, and a wrong runtime's possible values."""
    for one in watching_tests():
        function, _ = one.values
        rests_on = inspect.unwrap(function).__globals__.get("PREMISES", [Knob.CPUSET_MEMS])
        for knob in rests_on:
            for text in other_values(knob):
                yield pytest.param(*one.values, knob, text, id=f"{one.id}-{knob}-{text or 'empty'}")


@pytest.mark.parametrize(("function", "kubelet", "knob", "text"), list(broken_premises()))
def test_a_broken_premise_is_the_deviation_and_the_only_one(function, kubelet, knob, text, tmp_path):
    """Unless that is the planned value: then nothing is wrong."""
    findings = findings_of(function, kubelet, tmp_path, breaks=(knob, f"{text}\n"))
    courses = list(by_course(findings))

    assert len(courses) == source_of(function).count("qos_node.watched(")
    for premise, behaviours in ((premise_of(one, knob), behaviours_of(one)) for one in courses):
        assert premise.reason is not None
        if premise.expected == text:
            assert premise.verdict is Verdict.CONFORMS
            continue
        assert (premise.verdict, premise.observed) == (Verdict.DEVIATES, text)
        assert {finding.verdict for finding in behaviours} == {Verdict.NOT_OBSERVABLE}
        assert all(f"does not hold: {knob} of container" in finding.why_not for finding in behaviours)
    if all(premise_of(one, knob).expected == text for one in courses):
        assert {finding.verdict for finding in findings} == {Verdict.CONFORMS}


def by_course(findings):
    """The findings about containers, one container after the other; until it was bound anew, if it was."""
    containers = [one for one in findings if "container" in str(one.subject)]
    for cgroup in dict.fromkeys(one.cgroup for one in containers):
        course = [one for one in containers if one.cgroup == cgroup]
        again = [
            number
            for number, (before, one) in enumerate(itertools.pairwise(course), start=1)
            if is_premise(one) and not is_premise(before)
        ]
        yield course[: min(again, default=None)]


def is_premise(finding):
    """Whether it is about a file's required value, and not about another one."""
    return finding.knob in list(Knob) and not finding.expected.startswith("not ")


def premise_of(findings, knob):
    """The finding on this knob."""
    return next(one for one in findings if one.knob == knob)


def behaviours_of(findings):
    return [finding for finding in findings if finding.knob not in list(Knob)]


def test_a_precondition_lost_later_is_reported_with_its_time():
    """As by a runtime or a service manager that rewrites the file after two seconds."""
    before, after = sample(files(), at=5.0), sample(files(memory_swap_max="max\n"), at=7.5)
    [finding] = course(before, after).premises

    assert (finding.verdict, finding.expected, finding.observed) == (Verdict.DEVIATES, "8192000", "max")
    assert finding.evidence == {"seen": "2.5 s after the watch began", "held before": "8192000"}
    behaviour = course(before, after).stays_within("memory.swap.current", Knob.MEMORY_SWAP_MAX)
    assert behaviour.verdict is Verdict.NOT_OBSERVABLE
    assert behaviour.why_not == (
        "a precondition does not hold: memory.swap.max of container app of pod default/web is max, planned is 8192000"
    )


def test_a_premise_that_was_never_read_is_not_observable():
    [finding] = course(sample(None)).premises

    assert finding.verdict is Verdict.NOT_OBSERVABLE
    assert finding.why_not == "the cgroup does not exist"


def test_a_precondition_of_a_removed_container_was_read_while_it_ran():
    [finding] = course(sample(files()), sample(None, files(), exit_code=137)).premises

    assert finding.verdict is Verdict.CONFORMS


def test_the_pods_own_knobs_are_premises_too():
    findings = course(sample(files()), rests_on=[Knob.MEMORY_MAX]).premises

    assert [(str(finding.subject), finding.expected) for finding in findings] == [
        ("pod default/web", "max"),
        ("container app of pod default/web", "4096000"),
    ]


@pytest.mark.parametrize(
    ("knobs", "words"),
    [((), "no file is named"), ((Knob.MEMORY_LOW, Knob.MEMORY_MAX), "the plan has no memory.low for")],
)
def test_a_behaviour_needs_a_planned_precondition(knobs, words):
    pod, container = PLANNED
    with pytest.raises(UsageError, match=words):
        Preconditions(pod=pod, planned=container, knobs=knobs, enacted_by=Setter.MEMQOS)


def test_a_behaviour_with_a_version_dependent_precondition_is_not_observable():
    """The first of the two values is no more expected than the second."""
    pod, container = PLANNED
    knobs = dict(container.cgroup.knobs)
    swap = knobs[Knob.MEMORY_SWAP_MAX]
    knobs[Knob.MEMORY_SWAP_MAX] = dataclasses.replace(swap, undecided=(swap.value, MAX))
    unsure = dataclasses.replace(container, cgroup=dataclasses.replace(container.cgroup, knobs=knobs))
    premises = Preconditions(pod=pod, planned=unsure, knobs=(Knob.MEMORY_SWAP_MAX,), enacted_by=Setter.MEMQOS)
    found = Course(dataclasses.replace(course(sample(files())).observed, rests_on=premises)).swap.is_unused()
    assert found.verdict is Verdict.NOT_OBSERVABLE
    assert found.why_not == (
        "a precondition is not known: memory.swap.max of container app of pod default/web is 8192000 or max, "
        "since versions differ"
    )
    [premise] = [one for one in premises.judge([sample(files())]) if one.knob == "memory.swap.max"]
    assert premise.verdict is Verdict.NOT_OBSERVABLE


UNMODELLED = "youki 0.7.0 is not modelled"


def resting_on_an_unmodelled_high(*texts):
    """A finding about swap that rests on memory.high of a runtime without a model, which showed these texts."""
    pod, container = PLANNED
    knobs = dict(container.cgroup.knobs)
    knobs[Knob.MEMORY_HIGH] = dataclasses.replace(knobs[Knob.MEMORY_HIGH], unmodelled=UNMODELLED)
    left_open = dataclasses.replace(container, cgroup=dataclasses.replace(container.cgroup, knobs=knobs))
    premises = Preconditions(pod=pod, planned=left_open, knobs=(Knob.MEMORY_HIGH,), enacted_by=Setter.MEMQOS)
    samples = tuple(sample(files(memory_high=text)) for text in texts)
    found = Course(dataclasses.replace(course(*samples).observed, rests_on=premises)).swap.is_unused()
    [premise] = [one for one in premises.judge(samples) if str(one.subject).startswith("container")]
    assert premise.verdict is Verdict.NOT_OBSERVABLE
    return found


def test_a_default_that_a_runtime_without_a_model_left_is_known():
    """The kernel behaves by its files: memory.high is max, whatever the runtime may have written."""
    assert resting_on_an_unmodelled_high("max\n").verdict is Verdict.CONFORMS
    assert resting_on_an_unmodelled_high("max\n", NoFile.NO_FILE, "max\n").verdict is Verdict.CONFORMS


@pytest.mark.parametrize(
    "texts", [("4096\n",), ("max\n", "4096\n"), ("4096\n", "max\n"), ("much\n",), (NoFile.NO_FILE,)]
)
def test_another_value_of_a_runtime_without_a_model_is_not(texts):
    found = resting_on_an_unmodelled_high(*texts)
    assert found.verdict is Verdict.NOT_OBSERVABLE
    assert found.why_not == (
        f"a precondition is not known: memory.high of container app of pod default/web: {UNMODELLED}"
    )
