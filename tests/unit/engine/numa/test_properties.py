"""Properties of any machine, pods and order: nothing is overcommitted, nothing is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from memqos.engine.numa.admit import Admitted, admit, pod_started, release
from memqos.engine.numa.policies import PodLevel, TopologyPolicy, TopologyScope
from memqos.engine.numa.state import restore
from memqos.engine.numa.topology_manager import Hint, Mask
from memqos.engine.plan import Refusal
from memqos.model.pod import ContainerKind
from tests.checkpoints import checkpoint_text
from tests.unit.engine.numa.builders import MANAGED, container, machine, pod, policies

REASON_NAMES = {"TopologyAffinityError", "UnexpectedAdmissionError", "EmptyPodSharedPoolError"}

MACHINES = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(lambda sizes: machine(*sizes, pages=64))
RULES = st.builds(
    policies, st.sampled_from(list(TopologyPolicy)), st.sampled_from(list(TopologyScope)), minor=st.integers(22, 37)
)
WHOLE = st.builds(
    policies, st.sampled_from(list(TopologyPolicy)), st.just("pod"), minor=st.just(36), gates=st.just(MANAGED)
)
SHAPES = st.lists(
    st.tuples(st.sampled_from(list(ContainerKind)[:3]), st.integers(1, 8), st.sampled_from(["", "2Mi", "64Mi"])),
    min_size=1,
    max_size=4,
)
# Several small NUMA nodes: containers of their size soon fill them, or need two or three together.
CROWDED = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(lambda sizes: machine(*sizes, pages=64))
CROWDS = st.lists(
    st.tuples(st.lists(st.integers(1, 5), min_size=1, max_size=2), st.none() | st.integers(1, 15)),
    min_size=2,
    max_size=6,
)
GROUPING = st.builds(
    policies,
    st.sampled_from([TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED]),
    st.sampled_from(list(TopologyScope)),
    minor=st.integers(32, 37),
)


def pod_of(uid, shapes, total=""):
    """Containers in GiB, some with huge pages; the last one is an app container."""
    containers = [
        container(f"c{count}", f"{size}Gi", kind=kind, **({"hugepages_2Mi": pages} if pages else {}))
        for count, (kind, size, pages) in enumerate(shapes)
    ]
    return pod(uid, *containers, container("last", "1Gi"), total=total)


def assert_sound(table, fresh):
    """Every NUMA node adds up, and all blocks together equal the reserved memory."""
    held = {}
    for uid, names in table.assignments.items():
        # For a pod placed as a whole, the containers' blocks are shares.
        for blocks in [table.pod_blocks[uid]] if uid in table.pod_blocks else names.values():
            for block in blocks:
                held[block.kind] = held.get(block.kind, 0) + block.size
    for kind in ("memory", "hugepages-2Mi"):
        for zone in table.numa_nodes.values():
            memory = zone.of(kind)
            assert 0 <= memory.reserved <= memory.allocatable
            assert memory.reserved + memory.free == memory.allocatable
        assert sum(zone.of(kind).reserved for zone in table.numa_nodes.values()) == held.get(kind, 0)
    for zone in table.numa_nodes.values():
        assert zone.id in zone.cells
        assert (zone.assignments == 0) <= (zone.cells == (zone.id,))
        assert zone.of("memory").total == fresh.numa_nodes[zone.id].of("memory").total


@given(MACHINES, RULES, st.lists(SHAPES, max_size=5))
def test_no_numa_node_is_overcommitted_and_releasing_restores_the_table(fresh, rules, shapes):
    table = fresh
    for count, shape in enumerate(shapes):
        outcome = admit(pod_of(f"p{count}", shape), table=table, policies=rules)
        if isinstance(outcome, Refusal):
            assert outcome.reason_name in REASON_NAMES
            continue
        table = outcome.table
        if rules.checks_groups:
            assert_sound(table, fresh)
    for uid in tuple(table.assignments):
        table = release(uid, table)
    if rules.checks_groups:
        assert table == fresh


def cpu_hints(own, zones, mask):
    """Hints of a CPU Manager that prefers these NUMA nodes, for each container and for the pod."""
    wanted = [zone for zone in zones if mask >> zone & 1]
    hints = ({"cpu": (Hint(Mask.of(wanted), preferred=True),)},) if wanted else ()
    return dict.fromkeys(["", *(one.name for one in own.containers)], hints)


@settings(max_examples=300)
@given(CROWDED, GROUPING, CROWDS)
def test_sets_in_use_do_not_overlap(fresh, rules, crowd):
    """For any CPU Manager's hints: a set of several NUMA nodes is used only if none of them is in use otherwise."""
    table = fresh
    for count, (sizes, mask) in enumerate(crowd):
        own = pod(f"p{count}", *(container(f"c{number}", f"{size}Gi") for number, size in enumerate(sizes)))
        others = {} if mask is None else cpu_hints(own, fresh.ids, mask)
        outcome = admit(own, table=table, policies=rules, others=others)
        table = table if isinstance(outcome, Refusal) else outcome.table
    placed = [block for names in table.assignments.values() for blocks in names.values() for block in blocks]
    for place, block in enumerate(placed):
        for earlier in placed[:place]:
            if len(block.numa_nodes) > 1 and set(block.numa_nodes) & set(earlier.numa_nodes):
                assert block.numa_nodes == earlier.numa_nodes


@given(MACHINES, RULES, SHAPES)
def test_admission_is_a_function(fresh, rules, shape):
    own = pod_of("p", shape)
    before = repr(fresh)
    assert admit(own, table=fresh, policies=rules) == admit(own, table=fresh, policies=rules)
    assert repr(fresh) == before


@given(MACHINES, SHAPES)
def test_single_numa_node_pins_every_container_to_one_numa_node(fresh, shape):
    outcome = admit(pod_of("p", shape), table=fresh, policies=policies("single-numa-node"))
    if isinstance(outcome, Admitted):
        assert all("," not in mems for mems in outcome.cpuset_mems.values())


@given(MACHINES, SHAPES)
def test_the_scope_pod_pins_every_container_alike(fresh, shape):
    outcome = admit(pod_of("p", shape), table=fresh, policies=policies("single-numa-node", "pod"))
    if isinstance(outcome, Admitted):
        assert len(set(outcome.cpuset_mems.values())) == 1


class Node(RuleBasedStateMachine):
    """A node over time: pods are admitted, start and end; the kubelet restarts."""

    pods = Bundle("pods")

    @initialize(fresh=MACHINES | CROWDED, rules=RULES.filter(lambda rules: rules.checks_groups) | WHOLE)
    def boot(self, fresh, rules):
        self.fresh, self.rules, self.table, self.count = fresh, rules, fresh, 0

    @rule(target=pods, shape=SHAPES, total=st.sampled_from(["", "2Gi", "5Gi"]))
    def admit(self, shape, total):
        """A pod, perhaps with pod-level resources, which some kubelets place as a whole."""
        self.count += 1
        own = pod_of(f"p{self.count}", shape, total)
        outcome = admit(own, table=self.table, policies=self.rules)
        if isinstance(outcome, Refusal):
            assert own.uid not in self.table.assignments
            return multiple()
        self.table = outcome.table
        return own

    @rule(own=pods)
    def start(self, own):
        before = sum(zone.of("memory").reserved for zone in self.table.numa_nodes.values())
        self.table = pod_started(own, self.table, self.rules)
        assert sum(zone.of("memory").reserved for zone in self.table.numa_nodes.values()) <= before

    @rule(own=consumes(pods))
    def release(self, own):
        self.table = release(own.uid, self.table)
        assert own.uid not in self.table.assignments

    @rule()
    def restart(self):
        file = checkpoint_text("Static", self.table, with_pods=self.rules.pod_level is PodLevel.MANAGED)
        restored = restore(file, self.fresh, self.rules)
        assert restored == self.table

    @rule(own=pods)
    def admit_again(self, own):
        """A restarted kubelet finds the pod running: its app containers keep their memory."""
        held = {one.name: self.table.blocks(own.uid, one.name) for one in own.containers}
        outcome = admit(own, table=self.table, policies=self.rules)
        if isinstance(outcome, Admitted):
            assert {one.name: outcome.table.blocks(own.uid, one.name) for one in own.containers} == held

    @invariant()
    def sound(self):
        if hasattr(self, "table"):
            assert_sound(self.table, self.fresh)

    def teardown(self):
        if hasattr(self, "table"):
            for uid in tuple(self.table.assignments):
                self.table = release(uid, self.table)
            assert self.table == self.fresh


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=60, stateful_step_count=25)
