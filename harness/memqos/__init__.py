"""Test and conformance harness for Kubernetes memory QoS on cgroup v2.

What users import is here, and what tests and suites need besides in `memqos.testing`; all other modules may change from
one release to the next. The names are those of `memqos.facade`, which is imported when one of them is first asked for.
"""

TYPE_CHECKING = False  # type checkers take it for true; importing typing would take longer than all else here

if TYPE_CHECKING:
    from memqos.facade import *

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    from importlib.machinery import PathFinder

    def __getattr__(name: str) -> object:
        """A name of the facade, or its list of them. Modules of the package are no names of it: Python finds them."""
        if name in {"__all__", "__version__"} or not (
            name.startswith("__") or PathFinder.find_spec(f"memqos.{name}", __path__)
        ):
            from memqos import facade

            if name == "__all__" or name in facade.__all__:
                globals()[name] = found = getattr(facade, name)
                return found
        raise AttributeError(f"module 'memqos' has no attribute '{name}'")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
