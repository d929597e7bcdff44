"""The public API with every signature, as texts in this folder. To write them again, and then review the difference,
which users must follow:

python -m tests.golden.api.surface
"""

import dataclasses
import enum
import inspect
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import memqos
import memqos.testing

FOLDER = Path(__file__).parent
MODULES = {"memqos.txt": memqos, "memqos.testing.txt": memqos.testing}
WIDEST = 120


def surface(name: str) -> str:
    """The text of one module, a paragraph for each of its names."""
    module = MODULES[name]
    return "\n\n".join("\n".join(_told(one, getattr(module, one))) for one in sorted(module.__all__)) + "\n"


def _told(name: str, value: object) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
        yield from (f"    {line}" for line in _members(value))
    elif inspect.isfunction(value):
        yield from _signature(name, value)
    elif type(value).__module__ == "builtins":
        yield f"{name}: {type(value).__name__}"
    elif isinstance(value, types.UnionType):
        yield f"{name} = {' | '.join(one.__name__ for one in value.__args__)}"
    else:
        yield f"{name} = {value!r}"


def _members(kind: type) -> Iterator[str]:
    """An enum's members, a dataclass's fields, an error's arguments, and the public methods that the class defines.

    The constructors of other values are not public: fixtures and functions return them.
    """
    if issubclass(kind, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
    if dataclasses.is_dataclass(kind):
        yield from (f"{one.name}: {one.type}{_default(one)}" for one in dataclasses.fields(kind))
    if issubclass(kind, Exception) and "__init__" in vars(kind):
        yield from _signature("__init__", kind.__init__)
    for name, value in sorted(_defined(kind).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            getter = value.fget if isinstance(value, property) else value.func
            yield f"{name}: {getter.__annotations__.get('return', 'object')}"
        elif isinstance(value, classmethod | staticmethod):
            yield from _signature(name, value.__func__, kind=type(value).__name__)
        elif inspect.isfunction(value):
            yield from _signature(name, value)


def _defined(kind: type) -> dict[str, object]:
    """A class's own names, and those of its bases in memqos that are not public themselves."""
    found: dict[str, object] = {}
    for base in reversed(kind.mro()):
        if base is kind or (base.__module__.startswith("memqos.node.") and not dataclasses.is_dataclass(base)):
            found |= vars(base)
    return found


def _default(one: dataclasses.Field[object]) -> str:
    return "" if one.default is one.default_factory is dataclasses.MISSING else " = …"


def _signature(name: str, function: Callable[..., object], *, kind: str = "") -> Iterator[str]:
    """A function on one line, or with one line for each parameter if that is too long."""
    found = inspect.signature(function)
    plain = found.replace(
        parameters=[
            one if one.default is one.empty else one.replace(default=_Dots()) for one in found.parameters.values()
        ]
    )
    line = f"{kind} {name}{plain}".lstrip().replace("'", "")
    if len(line) + len("    ") <= WIDEST:
        yield line
        return
    head, _, rest = line.partition("(")
    told = [str(one).replace("'", "") for one in plain.parameters.values()]
    keyword = [one.kind is one.KEYWORD_ONLY for one in plain.parameters.values()]
    if True in keyword and "*" not in [line[:1] for line in told]:
        told.insert(keyword.index(True), "*")
    yield f"{head}("
    yield from (f"    {one}," for one in told)
    yield f"){rest[rest.rindex(')') + 1 :]}"


class _Dots:
    """A placeholder for a default: only its presence is public."""

    def __repr__(self) -> str:
        return "…"


if __name__ == "__main__":
    for name in MODULES:
        (FOLDER / name).write_text(surface(name))
