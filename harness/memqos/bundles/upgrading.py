"""Results of an older format, written again as those of today, with all the evidence that they had."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from memqos.bundles.copying import copy_folder, refuse_special_files
from memqos.bundles.files import BEGUN, BUNDLE, COMPRESSED, FINDINGS, RUN, write
from memqos.bundles.merging import parts_of
from memqos.bundles.reading import Results, verification_notes
from memqos.bundles.verifying import SIGNATURE, SUMS
from memqos.errors import UsageError
from memqos.report.bundle import Merged

__all__ = ["upgrade"]

_MADE_ANEW = (BEGUN, BUNDLE, FINDINGS, f"{FINDINGS}{COMPRESSED}", RUN, SUMS, SIGNATURE)
"""What is written from the bundle, and what was said of the files as they were."""


def upgrade(results: Results, folder: Path) -> Results:
    """These results in this folder, which is made; UsageError if it holds something, or is in the old one."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"'{folder}' is not empty.", next_step="Name a new folder with --output.")
    if folder.resolve().is_relative_to(results.folder.resolve()):
        raise UsageError(f"'{folder}' is in the results themselves.", next_step="Name a folder elsewhere.")
    refuse_special_files(results.folder)
    links = tuple(copy_folder(results.folder, folder, leave_out=_MADE_ANEW))
    lines = (json.dumps(result.to_json(), ensure_ascii=False) for result in results.bundle.results)
    write(folder / FINDINGS, "".join(f"{line}\n" for line in lines))
    write(folder / RUN, json.dumps(results.bundle.head(), indent=1, ensure_ascii=False) + "\n")
    told = results.bundle.merged
    bundle = dataclasses.replace(
        results.bundle,
        error="\n".join(filter(None, (*results.unended, results.bundle.error))),
        merged=Merged(
            parts=tuple(parts_of(results.name, results)),
            doubles=told.doubles if told is not None else (),
            contradictions=told.contradictions if told is not None else (),
        ),
    )
    left_out = [f"{one.relative_to(results.folder)} is a link out of the results, and is left out." for one in links]
    return Results(folder=folder, bundle=bundle, missing=(*results.missing, *verification_notes(bundle), *left_out))
