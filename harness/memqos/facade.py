"""What `memqos` lets users import, gathered from where it is made: the engine, its values, files and errors.

`memqos` imports this module when one of its names is first asked for, so that the package itself, and every pytest run
of an environment that has it, starts without the engine.
"""

from memqos.audits.answer import Audit
from memqos.audits.entry import audit
from memqos.catalog.kubelet_config import load_settings
from memqos.catalog.manifest_objects import Effect, OtherKind
from memqos.catalog.node_facts import load_facts
from memqos.catalog.pods import Manifests, load_manifests, load_pods
from memqos.catalog.recorded_contents import Recognised, recognise
from memqos.catalog.recorded_trees import RecordedContainer, RecordedTree, load_tree
from memqos.catalog.workloads import Replicas
from memqos.engine.answer.difference import Difference, differences
from memqos.engine.answer.document import plan_document
from memqos.engine.answer.explain import failure, knob_reasons, plan_tree, reason_lines
from memqos.engine.answer.finding import Finding, Setter, Verdict
from memqos.engine.answer.verdict import ContainerIds, Unsure, judge
from memqos.engine.cgroup.effective_protection import Effective, Protected, effective, settled
from memqos.engine.cgroup.layout import Layout
from memqos.engine.cgroup.protection import CgroupProtection, planned_protection
from memqos.engine.cgroup.throttle import Slowed, slowing
from memqos.engine.cgroup.usage import ContainerUsage
from memqos.engine.cgroup.victims import Shortage, Victim, shortages
from memqos.engine.expect import expect
from memqos.engine.kubelet import Kubelet
from memqos.engine.numa.table import NumaTable
from memqos.engine.plan import (
    Expected,
    Ignored,
    Input,
    Level,
    Plan,
    PlannedCgroup,
    PlannedContainer,
    PlannedPod,
    Reason,
    Refusal,
    RefusedBy,
)
from memqos.engine.releases.release import Release, Variant
from memqos.engine.resize.entry import resize_pods
from memqos.engine.resize.outcome import (
    Activity,
    Left,
    Resize,
    ResizeOutcome,
    ResizePlan,
    ResizeStep,
    StepKind,
    Usage,
)
from memqos.engine.translate.container import ContainerTranslation, translate
from memqos.engine.translate.docker import host_config
from memqos.engine.translate.oci import oci_for_create, oci_for_update
from memqos.engine.translate.resources import (
    DockerTranslation,
    OciResources,
    OciTranslation,
    RuntimeHost,
    RuntimeWrites,
)
from memqos.engine.translate.runtime_rules import files_held, held_after_reload, runtime_writes
from memqos.engine.translate.runtimes import Runtimes
from memqos.engine.translate.versions import Feature, RuntimeName, Traits, traits_of
from memqos.errors import (
    EnvironmentNotAbleError,
    ExitCode,
    MachineryError,
    ManifestError,
    MemqosError,
    NonconformanceError,
    UsageError,
)
from memqos.laboratory.bench import Bench, lab
from memqos.laboratory.station import Notices
from memqos.model.cluster import (
    ClusterObjects,
    ContainerPolicy,
    LimitRange,
    LimitRangeItem,
    LimitType,
    Namespace,
    PriorityClass,
    QuotaScope,
    Recommendation,
    ResourceQuota,
    RuntimeClass,
    UpdateMode,
    VerticalPodAutoscaler,
)
from memqos.model.cri import ContainerResources
from memqos.model.knob import ABSENT, MAX, UNLIMITED, Absent, Bytes, CpuMax, Knob, KnobValue, Max, Number, Unlimited
from memqos.model.node import (
    CgroupDriver,
    CgroupVersion,
    KubeletSettings,
    NodeFacts,
    NumaNode,
    ReservationPolicy,
    SwapBehavior,
)
from memqos.model.path import CgroupPath
from memqos.model.pod import (
    Container,
    ContainerKind,
    Controller,
    Pod,
    QosClass,
    ResizePolicy,
    Resources,
    Submission,
)
from memqos.model.quantity import Quantity, ResourceList
from memqos.model.reading import CgroupReading, FileText, Reading
from memqos.version import __version__

__all__ = [
    "ABSENT",
    "MAX",
    "UNLIMITED",
    "Absent",
    "Activity",
    "Audit",
    "Bench",
    "Bytes",
    "CgroupDriver",
    "CgroupPath",
    "CgroupProtection",
    "CgroupReading",
    "CgroupVersion",
    "ClusterObjects",
    "Container",
    "ContainerIds",
    "ContainerKind",
    "ContainerPolicy",
    "ContainerResources",
    "ContainerTranslation",
    "ContainerUsage",
    "Controller",
    "CpuMax",
    "Difference",
    "DockerTranslation",
    "Effect",
    "Effective",
    "EnvironmentNotAbleError",
    "ExitCode",
    "Expected",
    "Feature",
    "FileText",
    "Finding",
    "Ignored",
    "Input",
    "Knob",
    "KnobValue",
    "Kubelet",
    "KubeletSettings",
    "Layout",
    "Left",
    "Level",
    "LimitRange",
    "LimitRangeItem",
    "LimitType",
    "MachineryError",
    "ManifestError",
    "Manifests",
    "Max",
    "MemqosError",
    "Namespace",
    "NodeFacts",
    "NonconformanceError",
    "Notices",
    "NumaNode",
    "NumaTable",
    "Number",
    "OciResources",
    "OciTranslation",
    "OtherKind",
    "Plan",
    "PlannedCgroup",
    "PlannedContainer",
    "PlannedPod",
    "Pod",
    "PriorityClass",
    "Protected",
    "QosClass",
    "Quantity",
    "QuotaScope",
    "Reading",
    "Reason",
    "Recognised",
    "Recommendation",
    "RecordedContainer",
    "RecordedTree",
    "Refusal",
    "RefusedBy",
    "Release",
    "Replicas",
    "ReservationPolicy",
    "Resize",
    "ResizeOutcome",
    "ResizePlan",
    "ResizePolicy",
    "ResizeStep",
    "ResourceList",
    "ResourceQuota",
    "Resources",
    "RuntimeClass",
    "RuntimeHost",
    "RuntimeName",
    "RuntimeWrites",
    "Runtimes",
    "Setter",
    "Shortage",
    "Slowed",
    "StepKind",
    "Submission",
    "SwapBehavior",
    "Traits",
    "Unlimited",
    "Unsure",
    "UpdateMode",
    "Usage",
    "UsageError",
    "Variant",
    "Verdict",
    "VerticalPodAutoscaler",
    "Victim",
    "__version__",
    "audit",
    "differences",
    "effective",
    "expect",
    "failure",
    "files_held",
    "held_after_reload",
    "host_config",
    "judge",
    "knob_reasons",
    "lab",
    "load_facts",
    "load_manifests",
    "load_pods",
    "load_settings",
    "load_tree",
    "oci_for_create",
    "oci_for_update",
    "plan_document",
    "plan_tree",
    "planned_protection",
    "reason_lines",
    "recognise",
    "resize_pods",
    "runtime_writes",
    "settled",
    "shortages",
    "slowing",
    "traits_of",
    "translate",
]
