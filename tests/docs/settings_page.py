"""docs/reference/settings.md, made of the table of settings: `python -m tests.docs.settings_page` writes it anew."""

from memqos.config.kinds import Setting
from memqos.config.table import OTHER_VARIABLES, SETTINGS
from tests.docs.snippets import DOCS

PAGE = DOCS / "reference" / "settings.md"

HEAD = """# Settings

What a run has for a setting is said in one of these places; the first that says something wins:

1. the command line: `--driver cgroupfs` of `memqos run`, `memqos vm shell` and the other verbs that have it,
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

Files are looked for from the current folder upwards: the nearest folder that says anything of memqos is read, and no
other. There pytest's own file wins over `pyproject.toml`, and over both the file of the suites that are run
(`suites/pytest.ini`). Paths in a file are meant from its folder on. A key that there is no setting for, and a value
that its setting does not take, are [usage errors](exit-codes.md) that name the file and the line.

`memqos settings` shows every setting, its value, and where that came from; with `--json` as
[a document](json.md). A run says in its header what was not left at its default, and keeps all of it in `bundle.json`.

| setting | what it is | takes | default |
|---|---|---|---|
"""

TAIL = """
In the environment files are separated by colons, in a file they are a list. `-` and `_` are the same in the keys of
`[tool.memqos]`.

From the environment alone are read, since they are no matter of a single run:

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
