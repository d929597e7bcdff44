"""docs/reference/claims.md, made of suites/*/claims.toml: `python -m tests.docs.claims_page` writes it anew."""

from itertools import groupby
from pathlib import Path

from memqos.claims import NEEDS, Claim, load
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "claims.md"
SUITES = Path(__file__).parents[2] / "suites"

HEAD = """# Claims

The conformance suites prove these claims, each one sentence in `suites/<chapter>/claims.toml`. A claim's id is
chapter/name. Reports name claims by id; `memqos run -k` selects cases by a part of a test's name.

| field | what it is |
|---|---|
| `sentence` | what is true if the test passes |
| `source` | the source of the sentence: a section of an enhancement, a kernel document, a function of the kubelet |
| `releases` | the Kubernetes releases to which it applies: `1.27+`, `1.22-1.36`, `1.27`, or `any` for a behaviour \
of the kernel or the runtime itself |
| `kind` | `state`: values at rest. `behaviour`: what happens over time. `refusal`: what must not run |
| `about` | the component that the claim is about: `runtime`, `kernel`, `kubelet` (a real one), or `kubelet rules`, \
whichever program applies them. A case about a runtime, a kernel or a kubelet that observed none of its values is *not \
observable*: values that memqos itself wrote and reads back prove nothing about it |
| `needs` | what the node must have; without it the claim is *not observable*, which is never a pass |
| `asks` | what the claim's case does, for a claim without a test of its own: \
`{ verb = "left_alone", request = "everything" }`, `{ verb = "left_by_few", of = ["cgroups"] }`, or \
`{ kubelets = ["v1.36-tiered", "v1.36-off"] }`; a claim named like a request needs neither |
| `default` | `false` if a run of whole suites includes the claim only with `--all`; a run that names its chapter, \
file or test always includes it. At the head of a file it sets the default for all claims of the file |

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
