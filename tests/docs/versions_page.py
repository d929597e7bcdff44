"""docs/reference/versions.md, made of the table of features: `python -m tests.docs.versions_page` writes it anew."""

from memqos.engine.translate.versions import FEATURES, NEWEST, Row, RuntimeName
from tests.docs.known_page import linked
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "versions.md"

HEAD = """# Versions of runtimes

Differences between versions of container runtimes and OCI runtimes that affect interface files. Translations and plans
use this table, `memqos.engine.translate.versions.FEATURES`. For faults of released versions that a run shows, see
[known deviations](known-deviations.md#what-is-known).

| runtime | from | this version and later ones | earlier versions | upstream |
|---|---|---|---|---|
"""

AHEAD = """
runc 1.6 is not released: what it has here is in runc's main branch (commit 3e92f3f53, opencontainers/cgroups 0.0.8). A
build of that branch reports 1.5.0-rc.1+dev, as older builds did too, so the feature counts as uncertain.
"""

NAMES = {RuntimeName.CRIO: "CRI-O", RuntimeName.RUNSC: "runsc (gVisor)"}
"""Runtimes whose usual name differs from the one that they report."""


def page() -> str:
    """The page's text: a row for each feature that some versions of a runtime do not have."""
    lines = [
        f"| {NAMES.get(runtime, runtime)} | {releases(row)} | {feature} | {row.before} | {linked(row.upstream)} |"
        for runtime, rows in FEATURES.items()
        for feature, row in sorted(rows.items(), key=lambda one: one[1].since)
        if row.release
    ]
    # A name in angle brackets would be taken for HTML.
    table = "\n".join(lines).replace("<", "&lt;")
    newest = ", ".join(f"{NAMES.get(runtime, runtime)} {release}" for runtime, release in NEWEST.items())
    return HEAD + table + f"\n\nThe newest versions that were read: {newest}.\n" + AHEAD


def releases(row: Row) -> str:
    """The first release, and those of an older branch that have the feature, too."""
    if not row.backport:
        return row.release
    first, end = (".".join(map(str, one)) for one in row.backport)
    return f"{row.release}; also {first} and later ones before {end}"


if __name__ == "__main__":
    PAGE.write_text(page())
