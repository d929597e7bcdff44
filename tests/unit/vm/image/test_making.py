"""What a build gives the tools that it runs. Nothing is installed or booted."""

import pytest

from memqos.catalog.profiles import load_profile
from memqos.errors import ImageError
from memqos.vm.cache.store import Cache
from memqos.vm.host import programs
from memqos.vm.host.ownership import ProcessGroup
from memqos.vm.host.progress import SILENT
from memqos.vm.image.making import Build


@pytest.fixture
def tool(tmp_path):
    """One tool of a build that is run to its end."""
    build = Build(profile=load_profile("trixie"), cache=Cache(root=tmp_path / "cache"), work=tmp_path, progress=SILENT)
    with ProcessGroup() as group:
        yield lambda argv, **how: build.tool(group, argv, **how)


def test_a_tool_finds_what_an_ordinary_user_s_path_does_not_name(tool, tmp_path, monkeypatch):
    """A root's file system is made by a shell in a user namespace, which calls mke2fs by its name."""
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    (sbin / "make-it").write_text(f"#!/bin/sh\necho $LC_ALL >{tmp_path}/made\n")
    (sbin / "make-it").chmod(0o755)
    with pytest.raises(ImageError, match="sh ended with status 127"):
        tool(["sh", "-c", "make-it"])
    monkeypatch.setattr(programs, "SBIN", (str(sbin),))
    tool(["sh", "-c", "make-it"], environment={"LC_ALL": "C.UTF-8"})
    assert (tmp_path / "made").read_text() == "C.UTF-8\n"
