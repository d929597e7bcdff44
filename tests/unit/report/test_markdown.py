"""Markdown with inert text, and a badge in one line."""

import dataclasses
import json

import pytest

from memqos.errors import ExitCode
from memqos.report.markdown import badge_json, inline, markdown
from memqos.report.outcome import Outcome
from tests.unit.report.sample import BUNDLE, result

EVIL = "<script>x</script> @team #1 [a](http://b) | `c`\n# head\n![i](j) ~~k~~ \\| &lt;"


def test_it_has_verdict_chapters_deviations_with_their_command_and_machines():
    text = markdown(BUNDLE, name="nightly", missing=["bundle.json is damaged."])

    assert text.startswith("## ❌ memqos nightly: deviates\n")
    assert "| chapter | conforms | deviates | not observable | machinery | usage | seconds |" in text
    assert "| values | 1 | 1 | 1 | 2 | 0 | 7.5 |" in text
    assert "> bundle.json is damaged." in text
    assert "  - rerun: `memqos run --runtime crun" in text
    assert "<details><summary>Not observable: 1</summary>" in text
    assert "kernel 6.12.107, containerd 1.7.24, crun 1.21" in text


def test_no_text_becomes_markup():
    evil = dataclasses.replace(
        BUNDLE, error=EVIL, machines=({"id": EVIL},),
        results=tuple(dataclasses.replace(one, id=EVIL, chapter=EVIL, reason=EVIL) for one in BUNDLE.results),
    )  # fmt: skip

    text = markdown(evil, name=EVIL)

    assert inline(EVIL) == (
        r"\<script\>x\</script\> \@team \#1 \[a\]\(http://b\) \| \`c\` \# head \!\[i\]\(j\) \~\~k\~\~ \\\| \&lt;"
    )
    assert "<script>" not in "".join(line for line in text.splitlines() if "rerun:" not in line)
    assert {line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("| ")} == {8}


def test_a_command_is_code_with_any_name():
    evil = dataclasses.replace(BUNDLE, results=(result("``x`` <b>", Outcome.DEVIATES, reason="r"),))

    (line,) = (line for line in markdown(evil).splitlines() if "rerun:" in line)

    assert line.startswith("  - rerun: ``` memqos run ")
    assert line.endswith(" ```")


def test_cut_lists_have_a_count():
    many = dataclasses.replace(BUNDLE, results=tuple(result(str(n), Outcome.DEVIATES, reason="r") for n in range(45)))

    assert "- and 15 more" in markdown(many)


@pytest.mark.parametrize(
    ("code", "message", "color"),
    [
        (ExitCode.CONFORMS, "conforms (2)", "brightgreen"),
        (ExitCode.DEVIATES, "1 of 2 deviate", "red"),
        (ExitCode.NOTHING_OBSERVED, "nothing observed", "lightgrey"),
        (ExitCode.MACHINERY, "machinery", "yellow"),
    ],
)
def test_a_badge_is_one_line(code, message, color):
    text = badge_json(dataclasses.replace(BUNDLE, exit_code=int(code)), label="runc 1.3")

    assert text.count("\n") == 1
    assert json.loads(text) == {"schemaVersion": 1, "label": "runc 1.3", "message": message, "color": color}
