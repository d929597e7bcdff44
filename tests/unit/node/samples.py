"""Made-up looks at a container: its files, its state, and what its workload reported."""

import json

from memqos.model.node import CgroupVersion
from memqos.model.path import CgroupPath
from memqos.model.reading import CgroupReading, NoFile, Reading
from memqos.node.conditions import WATCHED_FILES, Sample
from memqos.runtime.base import ContainerState, ContainerStatus
from memqos.workload.report import parse_report

POD, APP = CgroupPath.parse("/pod"), CgroupPath.parse("/pod/app")
QUIET = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
EVENTS = "low 0\nhigh {high}\nmax 0\noom 0\noom_kill {oom_kill}\noom_group_kill 0\n"


def files(**changes):
    texts = {
        "memory.current": "1000\n",
        "memory.max": "4096000\n",
        "memory.events": EVENTS.format(high=0, oom_kill=0),
        "memory.pressure": QUIET,
        "memory.swap.current": "0\n",
        "memory.swap.max": "8192000\n",
        "memory.numa_stat": "anon N0=0 N1=0\nfile N0=0 N1=0\n",
        "cpuset.mems": "1\n",
    }
    return texts | {name.replace("_", "."): text for name, text in changes.items()}


def sample(container=None, pod_files=None, *, exit_code=None, reason="", report=""):
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
        POD: CgroupReading(path=POD, files=pod_files or inside),
    }
    reading = Reading(source="test", at=1.0, cgroups=cgroups)
    return Sample(container=APP, pod=POD, reading=reading, status=status, report=parse_report(report, source="test"))


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
