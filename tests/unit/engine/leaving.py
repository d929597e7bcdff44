"""Values that a plan leaves behind under another one, from `succession`."""

from memqos.engine.answer.succession import succession


def left_behind(before, after, *, remade=()):
    """Every file whose value differs from that on a new node, with its cgroup, in the plan's order."""
    fresh = {_key(cgroup): cgroup.knobs for cgroup in after.cgroups()}
    for cgroup in succession(before, after, remade=remade).cgroups():
        wanted = fresh.get(_key(cgroup), {})
        for knob, expected in cgroup.knobs.items():
            as_fresh = expected.value == wanted[knob].value if knob in wanted else knob.is_default(expected.value)
            if not as_fresh:
                yield cgroup, expected


def _key(cgroup):
    return cgroup.level, cgroup.path, cgroup.pod, cgroup.container
