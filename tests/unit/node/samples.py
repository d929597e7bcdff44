"""Made-up samples of a container: its files, its state, and its workload's report."""

import json

from memqos.engine.answer.finding import Setter
from memqos.engine.plan import Expected, Level, PlannedCgroup, PlannedContainer, PlannedPod, Reason
from memqos.model.cri import ContainerResources
from memqos.model.knob import MAX, Bytes, Knob, Text
from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.pod import QosClass
from memqos.model.reading import CgroupReading, NoFile, Reading
from memqos.node.behaviour.conditions import WATCHED_FILES, Sample
from memqos.node.behaviour.course import Course
from memqos.node.behaviour.preconditions import Observed, Preconditions
from memqos.runtime.base import ContainerState, ContainerStatus
from memqos.workload.report import parse_report

POD, APP = CgroupPath.parse("/pod"), CgroupPath.parse("/pod/app")
QUIET = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
EVENTS = "low 0\nhigh {high}\nmax 0\noom 0\noom_kill {oom_kill}\noom_group_kill 0\n"


RULE = Reason(rule="it is so", revision="test 1", source="nowhere")


def planned(**knobs):
    """One pod with one container, planned to hold the values of `files` and `legacy`."""
    values = {
        Knob.MEMORY_HIGH: MAX,
        Knob.MEMORY_MAX: Bytes(4096000),
        Knob.MEMORY_SWAP_MAX: Bytes(8192000),
        Knob.CPUSET_MEMS: Text("1"),
        Knob.MEMORY_LIMIT_IN_BYTES: Bytes(16384),
        Knob.MEMORY_MEMSW_LIMIT_IN_BYTES: Bytes(9223372036854771712),
        **{Knob(name.replace("__", ".")): value for name, value in knobs.items()},
    }
    expected = {knob: Expected(knob=knob, written=value, value=value, reason=RULE) for knob, value in values.items()}
    above = {Knob.MEMORY_MAX: Expected(knob=Knob.MEMORY_MAX, written=MAX, value=MAX, reason=RULE)}
    app = PlannedContainer(
        name="app",
        resources=ContainerResources(),
        cgroup=PlannedCgroup(level=Level.CONTAINER, path=POD, knobs=expected, pod="1", container="app"),
        oom_score_adj=0,
        explain_oom_score_adj=lambda: RULE,
    )
    web = PlannedPod(
        name="web",
        namespace="default",
        uid="1",
        qos=QosClass.BURSTABLE,
        qos_reason=RULE,
        cgroup=PlannedCgroup(level=Level.POD, path=POD, knobs=above, pod="1"),
        containers=(app,),
    )
    return web, app


PLANNED = planned()


def course(*samples, rests_on=(Knob.MEMORY_SWAP_MAX,)):
    """A course of these samples; the preconditions are these knobs."""
    pod, container = PLANNED
    premises = Preconditions(pod=pod, planned=container, knobs=tuple(rests_on), enacted_by=Setter.MEMQOS)
    return Course(Observed(rests_on=premises, samples=samples))


def files(**changes):
    texts = {
        "memory.current": "1000\n",
        "memory.high": "max\n",
        "memory.max": "4096000\n",
        "memory.events": EVENTS.format(high=0, oom_kill=0),
        "memory.pressure": QUIET,
        "memory.swap.current": "0\n",
        "memory.swap.max": "8192000\n",
        "memory.numa_stat": "anon N0=0 N1=0\nfile N0=0 N1=0\n",
        "cpuset.mems": "1\n",
    }
    return texts | {name.replace("_", "."): text for name, text in changes.items()}


def sample(container=None, pod_files=None, *, exit_code=None, reason="", report="", at=1.0, page_size=4096):
    gone = dict.fromkeys(WATCHED_FILES[CgroupVersion.V2], NoFile.NO_FILE)
    inside = gone if container is None else container
    status = ContainerStatus(
        state=ContainerState.RUNNING if exit_code is None else ContainerState.EXITED,
        exit_code=exit_code,
        reason=reason,
        message="",
        resources=None,
    )
    cgroups = {
        APP: CgroupReading(path=APP, files=inside),
        POD: CgroupReading(path=POD, files={**(pod_files or inside), "memory.max": "max\n"}),
    }
    reading = Reading(source="test", at=at, cgroups=cgroups)
    return Sample(
        container=APP,
        pod=POD,
        planned=PLANNED[1].cgroup.knobs,
        reading=reading,
        status=status,
        report=parse_report(report, source="test"),
        page_size=page_size,
    )


def done(number, amount):
    line = {"event": "done", "ms": 1, "command": number, "verb": "anon", "id": number, "bytes": amount}
    return json.dumps(line | {"max_us": 1}) + "\n"


def events(high=0, oom_kill=0):
    return files(memory_events=EVENTS.format(high=high, oom_kill=oom_kill))


def legacy(**changes):
    texts = {
        "memory.usage_in_bytes": "8192\n",
        "memory.max_usage_in_bytes": "8192\n",
        "memory.limit_in_bytes": "16384\n",
        "memory.memsw.usage_in_bytes": "8192\n",
        "memory.memsw.limit_in_bytes": "9223372036854771712\n",
        "memory.failcnt": "0\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    }
    return texts | {f"memory.{name.replace('__', '.')}": text for name, text in changes.items()}
