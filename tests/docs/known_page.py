"""docs/reference/known-deviations.md, made of the table of faults and of vm/known.toml.

`python -m tests.docs.known_page` writes it anew.
"""

import re
from collections.abc import Iterable
from itertools import groupby

from memqos.catalog.data import data_root
from memqos.engine.faults import FAULTS, FOUND
from memqos.known import KnownDeviation, load_known
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "known-deviations.md"
MOST_CLAIMS = 3
"""Of more claims a row names the chapters."""

HEAD = """# Known deviations

`vm/known.toml` lists known faults of certain versions of runtimes, kernels and kubelets. `--known FILE` adds
your own list and can be repeated; the setting is `known = ["known.toml"]`. A listed deviation is reported as *known*,
with its entry, and does not fail the run. *Known* is an outcome and a verdict of its own, with its own column in the
summary, the matrix, `bundle.json` and `junit_01.xml` (there, a property of a case that passed).

```toml
[swap-is-back-after-a-daemon-reload]
runtime = "my-runc"
driver = "systemd"
claim = "lifecycle/daemon-reload-no-swap"
knob = "memory.swap.max"
observed = "max"
sentence = "…"
upstream = "our tracker, number 17"

[cri-o-drops-unified-in-our-claims]
fault = "cri-o/update-drops-unified"
where = [
    { claim = ["ours/grows", "ours/shrinks"], knob = ["memory.min", "memory.high"] },
    { claim = "ours/scope", knob = "memory.high of the scope", other_runtime = "crun", driver = "systemd" },
]
```

| field | what it is |
|---|---|
| `runtime` | the CRI or OCI runtime, by the name that it reports; `linux`: the kernel, by its release; `kubelet`: \
by the Kubernetes release |
| `since`, `fixed` | the first release that deviates, and the first that no longer does; by default every release, \
and not fixed yet |
| `sentence` | what the runtime does wrong |
| `upstream` | the upstream issue or pull request |
| `fault` | instead of these five fields: a row of [what is known](#what-is-known) that has them |
| `claim`, `knob` | what deviates: both must match; a list of claims or knobs means one entry for each |
| `cause` | for a kubelet, or a claim: what it leaves behind ([below](#kubelets)) |
| `other_runtime` | the other runtime that the deviation requires, such as the OCI runtime below the CRI runtime |
| `driver`, `observed` | the cgroup driver and the observed value; by default either driver and any value |
| `sometimes` | the deviation does not always occur |
| `where` | a list of tables with the fields from `claim` on, each on top of the entry's own: one entry for each |

Your own list has the same fields, and its entry names must be unique across all lists. Unknown fields, unknown
faults, unknown claims (not in memqos and not in the suites of the run), malformed versions and a `fixed` that is not
after `since` are rejected with file and line before any machine starts (exit code 4).

```sh
./memqos run --runtime-binary ./my-runc --known known.toml
```

An entry covers nothing else: another knob, claim, runtime, version or value still deviates, and a case with a known
and another deviation deviates. If a runtime reports no version, only entries without `since` and `fixed` apply.

The end of a run lists, by version, each entry whose claim ran with that runtime and whose knob was right everywhere.
It also lists an entry whose claim conforms without a finding for the knob: the knob's name is wrong. With
`--strict-known` such entries fail the run (exit code 1), so that the list stays correct.

## What is known

The versions, sentences and links are rows of `memqos.engine.faults`; `vm/known.toml` has the claims and files. For
other differences between versions see [versions of runtimes](versions.md).

| fault | versions | what it does | upstream | shows in |
|---|---|---|---|---|
"""

KUBELETS = """
## Kubelets

An entry for the kubelet has a `claim`, which a run with `--kubelet-binary` tests, or a `cause`.
[`memqos audit`](recorded-trees.md) looks for causes in the files of pods that may have been resized in place (1.27 or
later, the gate is on, `metadata.generation` is not 1), and reports them as known if the list has the cause, the knob
and the kubelet's release:

| `cause` | pattern |
|---|---|
| `stopped-container` | the pod's files show another size than those of its containers, and a container was \
restarted or is not running; without a status: the pod's limit is below a container's |
| `pod-memory-qos` | memory.min or memory.low of the pod does not match its requests, and those of its containers do |
| `high-at-limit` | the request of a Burstable container equals its limit, no memory.high is sent, and the file \
holds a value \
below the limit |

[`memqos expect --resize`](resize.md#what-it-leaves-behind) prints which of them a resize leaves behind.
"""


def page() -> str:
    """The page's text."""
    entries = load_known(data_root() / "vm" / "known.toml")
    return (
        HEAD + "\n".join(row(name, [one for one in entries if one.fault == name]) for name in FAULTS) + "\n" + KUBELETS
    )


def row(name: str, entries: list[KnownDeviation]) -> str:
    fault = FAULTS[name]
    cells = (f"`{name}`", versions(fault.since, fault.fixed), fault.sentence, linked(fault.upstream), shows_in(entries))
    return f"| {' | '.join(cells)} |"


def versions(since: str, fixed: str) -> str:
    """A range of versions in words."""
    if since and fixed:
        return f"from {since}, before {fixed}"
    return f"from {since}" if since else f"before {fixed}" if fixed else "all"


def linked(upstream: str) -> str:
    """Upstream links as links: owner/name#number, name#number, and the page of what memqos found."""
    if upstream == FOUND:
        return "[found by memqos](../explanation/found.md)"

    def link(match: re.Match[str]) -> str:
        owner, name, number = match["owner"] or match["name"], match["name"], match["number"]
        return f"[{match[0]}](https://github.com/{owner}/{name}/issues/{number})"

    return re.sub(r"(?:(?P<owner>[\w.-]+)/)?(?P<name>[\w.-]+)#(?P<number>\d+)", link, upstream)


def shows_in(entries: list[KnownDeviation]) -> str:
    """The claims, or where there are many how many of which chapters, with the driver and runtime that all require."""
    causes = [f"cause `{cause}`" for cause in unique(one.cause for one in entries if one.cause)]
    claims = unique(one.claim for one in entries if one.claim)
    told = ", ".join([*causes, *(f"`{one}`" for one in claims)])
    if len(claims) > MOST_CLAIMS:
        chapters = groupby(sorted(claims), key=lambda one: one.partition("/")[0])
        told = ", ".join(f"{len(list(group))} of `{chapter}`" for chapter, group in chapters)
    needs = [
        of
        for of in (unique(one.driver for one in entries), unique(one.other_runtime for one in entries))
        if len(of) == 1
    ]
    return told + "".join(f", with {need}" for [need] in needs if need)


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


if __name__ == "__main__":
    PAGE.write_text(page())
