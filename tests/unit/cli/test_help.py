"""Every verb's --help teaches: it has an example, and is printed as written."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from memqos.cli.main import cli


def verbs(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All verbs below a command, with their parents."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from verbs(inner, (*words, name))


@pytest.mark.parametrize("words", list(verbs()), ids=" ".join)
def test_help_has_an_example_and_no_marks(words):
    told = CliRunner().invoke(cli, [*words, "--help"])
    assert told.exit_code == 0
    examples = [line for line in told.output.splitlines() if line.startswith(f"    {' '.join(['memqos', *words])}")]
    assert examples, "no line shows the verb in use"
    assert "\\" not in told.output
    assert max(map(len, told.output.splitlines())) <= 120
