"""Programs of several modules that are sent to a target's python3 as one source."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence

__all__ = ["sent_source"]

# Each module is made under its own name, so that the next can import it there as it does here. An attendant keeps what
# is defined before the end (`target.attendant_program.MAIN`).
_LOADER = """\
import sys, types
for name, source in {sources!r}:
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
main = sys.modules[name].main

if __name__ == "__main__":
    main()
"""


def sent_source(modules: Mapping[str, Sequence[str]]) -> str:
    """One source of these modules, by their packages, under the names that they have here.

    modules: in an order in which each imports only those before it, and the standard library. The main of the last one
    is run. Their packages are empty there.
    """
    sources = [(package, "") for package in dict.fromkeys(("memqos", *modules))]
    for package, names in modules.items():
        folder = importlib.resources.files(package)
        sources += [(f"{package}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8")) for name in names]
    return _LOADER.format(sources=sources)
