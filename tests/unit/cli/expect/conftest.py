import pytest

from memqos.cli.main import run


@pytest.fixture
def told(capsys):
    """Run `memqos expect` with these arguments: the exit code, and both outputs."""

    def tell(*arguments):
        code = run(["expect", *arguments])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return tell
