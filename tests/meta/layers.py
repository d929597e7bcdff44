"""The layers of the package as data: each module group, and the groups it may import from.

A group is the longest listed prefix of a module's name. Besides what is listed, a module may import its own group
and the standard library; third-party packages are listed by their import name.
"""

LAYERS: dict[str, frozenset[str]] = {
    # L0: the vocabulary of failure, failures that repeat themselves, time, and what a process ends with
    "errors": frozenset(),
    "version": frozenset(),
    "clock": frozenset({"errors"}),
    "repetition": frozenset({"errors"}),
    "interruption": frozenset({"clock"}),
    "threads": frozenset(),
    "frame": frozenset({"errors", "clock", "version"}),
    "ownership": frozenset({"errors"}),
    "plain_file": frozenset({"errors"}),
    "validation": frozenset({"errors", "plain_file", "third:msgspec"}),
    # L1, L2: pure
    "model": frozenset({"errors"}),
    "engine": frozenset({"errors", "model"}),
    # L3: the program that is sent to machines, the kernel's text, machines that can be reached, runtimes
    "agent": frozenset({"clock", "third:jeepney"}),
    "collector": frozenset(),
    "cgroupfs": frozenset({"errors", "clock", "model", "target.base"}),
    "target": frozenset({"errors", "clock", "agent", "model", "third:testinfra"}),
    "runtime": frozenset(
        {
            "errors", "clock", "model", "engine", "cgroupfs", "target.base", "target.fake", "third:grpc",
            "third:google", "third:docker",
        }
    ),
    # L4: machines that are booted, load, observation, enforcement
    "vm": frozenset({"errors", "plain_file", "clock", "model", "target", "ownership"}),
    "vm.architecture": frozenset(),
    "vm.kernel_tree": frozenset({"errors"}),
    "vm.host": frozenset({"errors", "clock", "vm.architecture"}),
    "vm.cache": frozenset({"errors", "clock", "vm.host"}),
    "vm.qemu": frozenset(
        {
            "errors", "clock", "model", "ownership", "target", "vm.host", "vm.cache", "vm.profile", "third:qemu",
            "vm.architecture",
        }
    ),
    "vm.guest": frozenset(
        {"errors", "clock", "model", "target", "vm.qemu", "vm.options", "vm.trees", "vm.profile", "vm.kernel_tree"}
    ),
    "vm.image": frozenset(
        {
            "errors", "clock", "model", "ownership", "target", "vm.host", "vm.cache", "vm.qemu", "vm.guest",
            "vm.profile", "vm.options", "vm.architecture", "vm.kernel_tree",
        }
    ),
    "vm.checkpoint": frozenset({"errors", "clock", "model", "target", "vm.host", "vm.cache", "vm.qemu"}),
    "workload": frozenset({"errors", "clock", "model", "target.base", "runtime.base"}),
    "probe": frozenset({"errors", "clock", "model", "cgroupfs", "target.base", "runtime.base"}),
    "enforce": frozenset(
        {
            "errors", "clock", "agent", "model", "engine", "cgroupfs", "target.base", "runtime.base",
        }
    ),
    "enactor": frozenset(
        {
            "errors", "clock", "repetition", "threads", "model", "engine", "cgroupfs", "target.base", "runtime.base",
            "runtime.fake_cgroups", "workload", "enforce",
        }
    ),
    # L5: what composes them
    "place": frozenset(
        {"errors", "clock", "agent", "model", "engine", "cgroupfs", "target", "runtime", "probe"}
    ),
    "place.guard": frozenset(
        {"errors", "clock", "agent", "cgroupfs", "target.base", "runtime"}
    ),
    "place.provisioning": frozenset(
        {"errors", "clock", "model", "place.base", "place.guard", "probe", "runtime", "target.base", "catalog", "vm"}
    ),
    "place.existing_machine": frozenset(
        {"errors", "clock", "ownership", "model", "cgroupfs", "place", "probe", "runtime", "target"}
    ),
    "place.vm": frozenset(
        {
            "errors", "clock", "model", "engine", "cgroupfs", "place.base", "place.provisioning", "place.discovery",
            "place.rootless", "probe", "runtime.base", "target.base", "catalog", "vm",
        }
    ),
    "place.disk_image": frozenset(
        {
            "errors", "clock", "model", "place", "probe", "runtime.base", "target.base", "catalog", "vm",
        }
    ),
    "place.recording": frozenset(
        {"errors", "clock", "model", "engine", "cgroupfs", "place", "probe", "runtime", "target", "catalog"}
    ),
    "place.collecting": frozenset({"errors", "clock", "collector", "place", "target"}),
    "place.opening": frozenset({"errors", "model", "catalog", "config", "place", "target.opening", "vm"}),
    "catalog.support_archives": frozenset({"errors", "ownership", "catalog.sosreports"}),
    "catalog.sosreports": frozenset({"errors", "catalog.node_facts", "collector"}),
    "catalog": frozenset(
        {"errors", "plain_file", "model", "engine", "validation", "vm", "third:msgspec", "third:yaml"}
    ),
    "claims": frozenset({"errors", "model", "engine", "validation", "third:msgspec"}),
    "cases": frozenset({"errors", "claims", "catalog"}),
    "known": frozenset({"errors", "model", "engine", "catalog.data", "validation", "third:msgspec"}),
    "config": frozenset({"errors", "plain_file", "model", "engine"}),
    "node": frozenset(
        {
            "errors", "clock", "repetition", "threads", "model", "engine", "cgroupfs", "target", "runtime", "workload",
            "probe", "enforce", "enactor", "catalog", "claims", "config", "place.base", "place.fake",
        }
    ),
    "report": frozenset({"errors", "clock", "version", "model", "engine", "claims", "config", "known"}),
    "report.documents": frozenset({"errors", "model", "engine", "claims", "report.outcome", "third:msgspec"}),
    "bundles": frozenset(
        {"errors", "plain_file", "model", "engine", "catalog.data", "claims", "report", "validation", "third:msgspec"}
    ),
    "page": frozenset(
        {"errors", "model", "engine", "report", "bundles", "third:jinja2", "third:markupsafe"}
    ),
    "face": frozenset({"errors", "clock", "engine", "report", "third:click", "third:rich"}),
    # Runs on machines without pytest
    "laboratory": frozenset(
        {
            "errors", "ownership", "version", "clock", "frame", "model", "engine", "probe", "runtime.base",
            "target.attended", "target.base", "enactor", "catalog", "claims", "config", "known", "node", "place",
            "report",
        }
    ),
    # Random pods, configurations and requests
    "exploration": frozenset(
        {
            "errors", "ownership", "plain_file", "clock", "threads", "model", "engine", "runtime.base",
            "target.base", "workload", "catalog", "config", "known", "node", "place", "audits", "laboratory",
            "third:hypothesis", "third:yaml",
        }
    ),
    # Systems made wrong on purpose, and what notices them; runs on machines without pytest
    "mutants": frozenset(
        {
            "errors", "ownership", "version", "clock", "threads", "model", "engine", "runtime", "target.base",
            "enactor", "cases", "catalog", "claims", "config", "known", "node", "place", "laboratory", "validation",
            "vm.host", "third:msgspec", "third:grpc", "third:google", "third:pytest",
        }
    ),
    # The judgement of nodes that memqos did not set up
    "audits": frozenset(
        {"errors", "version", "clock", "model", "engine", "catalog", "known", "enactor.base", "node.pods"}
    ),
    # L6: what speaks to people and to pytest; nothing below imports it
    "plugin": frozenset(
        {
            "errors", "version", "clock", "repetition", "interruption", "frame", "ownership", "threads", "model",
            "engine", "probe", "runtime.base", "target.attended", "target.base", "enactor", "cases", "catalog",
            "claims", "config", "known", "node", "place", "laboratory", "report", "bundles", "face", "page",
            "third:pytest", "third:xdist", "third:execnet", "third:pluggy", "third:click",
        }
    ),
    "cli": frozenset({"*", "third:click", "third:rich", "third:pytest"}),
    # What users import: names of what is made elsewhere
    "facade": frozenset({"errors", "version", "model", "engine", "audits", "catalog", "laboratory", "node"}),
    "testing": frozenset({"catalog", "runtime.base", "enactor", "node", "workload", "plugin"}),
    "testing.strategies": frozenset({"exploration", "third:hypothesis"}),
    "__init__": frozenset({"facade"}),
    "__main__": frozenset({"cli"}),
}  # fmt: skip

NEVER_IMPORTED = frozenset({"cli", "plugin"})
"""Groups that nothing below L6 may import, whatever the table says with its star."""

PURE = frozenset({"model", "engine"})
"""Groups that do no I/O: of the standard library they may import only ALLOWED_IN_PURE."""

ALLOWED_IN_PURE = frozenset(
    {
        "__future__", "abc", "base64", "binascii", "bisect", "collections", "collections.abc", "dataclasses", "decimal",
        "difflib", "enum", "fractions", "functools", "itertools", "json", "math", "operator", "re", "string",
        "textwrap", "types", "typing",
    }
)  # fmt: skip
