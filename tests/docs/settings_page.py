"""docs/reference/settings.md, made of the table of settings: `python -m tests.docs.settings_page` writes it anew."""

from memqos.config.table import OTHER_VARIABLES, SETTINGS, Setting
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "settings.md"

HEAD = """# Settings

The value of a setting comes from the first of these places that has it:

1. the command line: `--driver cgroupfs` of `memqos run`, `memqos vm shell` and the other commands that have it,
   `--memqos-driver cgroupfs` of plain pytest,
2. the environment: `MEMQOS_DRIVER=cgroupfs`,
3. a file: `driver = "cgroupfs"` in the table `[tool.memqos]` of `pyproject.toml`, or `memqos_driver = cgroupfs` where
   pytest has its own (`pytest.ini`, `tox.ini`, `setup.cfg`, or `[tool.pytest.ini_options]`),
4. the default.

```toml
[tool.memqos]
profile = ["bookworm", "trixie"]
runtime-binary = "build/runc"
time-budget = "20m"
keep-vm = true
```

memqos searches files from the current folder upwards, and reads only the nearest folder with a setting of memqos.
There pytest's own file overrides `pyproject.toml`, and the file of the suites (`suites/pytest.ini`) overrides both.
Paths in a file are relative to its folder. Unknown keys and values that a setting does not accept are
[usage errors](exit-codes.md) with file and line.

`memqos settings` shows every setting, its value and its origin; with `--json` as [a document](json.md). A run prints in
its header the settings that differ from their defaults, and keeps all of them in `bundle.json`.

| setting | what it is | takes | default |
|---|---|---|---|
"""

TAIL = """
In the environment, colons separate files; in a file they are a list. `-` and `_` are the same in the keys of
`[tool.memqos]`.

These are read only from the environment, since they do not belong to a single run:

{others}
"""


def row(setting: Setting) -> str:
    takes = ", ".join(setting.choices) if setting.choices and "version" not in setting.name else setting.kind.value
    default = setting.default
    text = {None: "", False: "no", (): ""}.get(default) if not isinstance(default, int) or default is False else None
    if text is None:
        text = f"`{','.join(default) if isinstance(default, tuple) else default}`"
    return f"| `{setting.name}` | {setting.help} | {takes} | {text} |"


def page() -> str:
    others = "\n".join(f"- `{name}`: {what}" for name, what in OTHER_VARIABLES.items())
    return HEAD + "\n".join(map(row, SETTINGS)) + "\n" + TAIL.format(others=others)


if __name__ == "__main__":
    PAGE.write_text(page())
