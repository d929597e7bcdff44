"""docs/reference/claims.md, made of suites/*/claims.toml: `python -m tests.docs.claims_page` writes it anew."""

from itertools import groupby
from pathlib import Path

from memqos.claims import NEEDS, Claim, load
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "claims.md"
SUITES = Path(__file__).parents[2] / "suites"

HEAD = """# Claims

What the conformance suites prove: one sentence each, in `suites/<chapter>/claims.toml`. A claim's id is chapter/name;
`memqos run -k` takes a part of a test's name, and reports name the claims.

| field | what it says |
|---|---|
| `sentence` | what is true if the test passes |
| `source` | where that is written: a section of an enhancement, a kernel document, a function of the kubelet |
| `releases` | the Kubernetes releases that it is about: `1.27+`, `1.22-1.36`, `1.27`, or `any` for what the kernel \
or the runtime does by itself |
| `kind` | `state`: values at rest. `behaviour`: what happens over time. `refusal`: what must not run |
| `about` | on whose doing the claim rests: `runtime`, `kernel`, or `kubelet rules` whoever writes them. A case that \
observed nothing which the runtime (or the kernel) made is *not observable*: values that memqos wrote itself and reads \
back prove nothing of a runtime |
| `needs` | what it takes to show it; without it the claim is *not observable*, which is never a pass |
| `asks` | what the claim's case does, where that needs no test of its own: \
`{ verb = "left_alone", request = "everything" }`, `{ verb = "left_by_few", of = ["cgroups"] }`, or \
`{ kubelets = ["v1.36-tiered", "v1.36-off"] }`; a claim with the name of a request needs none |
| `default` | `false` if a run of whole suites proves it with `--all` alone; one that names its chapter, file or test \
always does. At the head of a file it is meant of all claims that do not say it themselves |

| need | means |
|---|---|
"""


def page() -> str:
    """The page's text."""
    claims = load(SUITES)
    parts = [HEAD + "\n".join(f"| `{name}` | {text} |" for name, text in NEEDS.items())]
    for chapter, group in groupby(sorted(claims.values(), key=lambda one: one.id), key=lambda one: one.chapter):
        parts += [f"## {chapter}", *map(section, group)]
    return "\n\n".join(parts) + "\n"


def section(claim: Claim) -> str:
    needs = ", ".join(f"`{need}`" for need in claim.needs) or "nothing"
    return "\n".join(
        [
            f"### {claim.id}",
            "",
            claim.sentence,
            "",
            f"- Releases: {claim.releases}; kind: {claim.kind}; about: {claim.about}; needs: {needs}"
            + ("" if claim.default else "; with `--all`"),
            f"- Source: {claim.source}",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
