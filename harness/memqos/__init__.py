"""Test and conformance harness for Kubernetes memory QoS on cgroup v2.

What users import is here, and what tests and suites need besides in `memqos.testing`; all other modules may change from
one release to the next. The names are read from `memqos.facade` when they are first asked for.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would take longer than all else here

if TYPE_CHECKING:
    from memqos.facade import *

__all__ = [
    "ABSENT",
    "MAX",
    "UNLIMITED",
    "Absent",
    "Bytes",
    "CgroupDriver",
    "CgroupPath",
    "CgroupReading",
    "CgroupVersion",
    "Container",
    "ContainerIds",
    "ContainerKind",
    "ContainerResources",
    "ContainerTranslation",
    "ContainerUsage",
    "Controller",
    "CpuMax",
    "Difference",
    "DockerTranslation",
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
    "Level",
    "MachineryError",
    "ManifestError",
    "Manifests",
    "Max",
    "MemqosError",
    "NodeFacts",
    "NonconformanceError",
    "NumaZone",
    "Number",
    "OciResources",
    "OciTranslation",
    "Plan",
    "PlannedCgroup",
    "PlannedContainer",
    "PlannedPod",
    "Pod",
    "Protected",
    "QosClass",
    "Quantity",
    "Reading",
    "Reason",
    "Recognised",
    "RecordedContainer",
    "RecordedTree",
    "Refusal",
    "Release",
    "Replicas",
    "ReservationPolicy",
    "Resize",
    "ResizeOutcome",
    "ResizePlan",
    "ResizePolicy",
    "ResizeStep",
    "ResourceList",
    "Resources",
    "RuntimeHost",
    "RuntimeName",
    "RuntimeWrites",
    "Runtimes",
    "Setter",
    "Sheltered",
    "StepKind",
    "SwapBehavior",
    "Traits",
    "Unlimited",
    "Unsure",
    "Usage",
    "UsageError",
    "Variant",
    "Verdict",
    "ZoneTable",
    "__version__",
    "differences",
    "effective",
    "expect",
    "failure",
    "files_held",
    "held_after_reload",
    "host_config",
    "judge",
    "knob_reasons",
    "load_facts",
    "load_manifests",
    "load_pods",
    "load_settings",
    "load_tree",
    "oci_for_create",
    "oci_for_update",
    "plan_document",
    "plan_tree",
    "reason_lines",
    "recognise",
    "resize_pods",
    "runtime_writes",
    "settled",
    "shelter",
    "traits_of",
    "translate",
]

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name

    def __getattr__(name: str) -> object:
        """One of the names above. Modules of the package are no names of it: Python finds them itself."""
        if name not in __all__:
            raise AttributeError(f"module 'memqos' has no attribute '{name}'")
        from memqos import facade

        globals()[name] = found = getattr(facade, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
