"""The last line of an interrupted command is memqos's own, whatever Python prints at its end."""

import subprocess
import sys

import pytest

COMES_APART = """
import sys
from memqos.cli import main as page

class Torn:
    def __del__(self):
        raise OSError("torn down in the middle of a call")

kept = Torn()

def answers(*_, **__):
    {answers}

page.cli.main = answers
sys.argv = ["memqos", "doctor"]
page.main()
"""


@pytest.mark.parametrize(("answers", "code", "told"), [("raise KeyboardInterrupt", 2, False), ("return 0", 0, True)])
def test_only_an_interrupted_command_hides_teardown_errors(answers, code, told):
    program = COMES_APART.replace("{answers}", answers)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == code
    assert ("torn down in the middle of a call" in done.stderr) is told
    assert ("memqos: interrupted." in done.stderr) is not told


@pytest.mark.parametrize(
    "begin", ["runpy.run_module('memqos', run_name='__main__')", "from memqos.__main__ import console; console()"]
)
def test_an_interrupt_while_memqos_is_being_imported_has_no_traceback(begin):
    program = (
        "import runpy, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'memqos.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        f"{begin}\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (2, "memqos: interrupted.")
