"""A docker that runs commands on this host, as a container's own would run them in it."""

from pathlib import Path

import pytest

DOCKER = """\
#!/bin/sh
[ "$1 $2 $3" = "exec -i kind" ] || { echo "Error: No such container: $3" >&2; exit 1; }
shift 3
exec "$@"
"""


@pytest.fixture
def docker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("bin") / "docker"
    program.write_text(DOCKER)
    program.chmod(0o755)
    return program
