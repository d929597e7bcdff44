import json

import pytest

from memqos.cli.main import run
from tests.unit.cli.audit.recordings import TIERED


@pytest.fixture
def told(capsys):
    """Run `memqos audit` with these arguments: the exit code, and both outputs."""

    def tell(*arguments):
        code = run(["audit", *map(str, arguments)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell


@pytest.fixture
def changed(tmp_path):
    """A copy of a recorded tree after a change to it."""

    def change(do, source=TIERED):
        data = json.loads(source.read_text())
        do(data)
        path = tmp_path / "tree.json"
        path.write_text(json.dumps(data))
        return path

    return change
