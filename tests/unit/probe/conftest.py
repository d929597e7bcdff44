import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "vm" / "probe" / "memwatch"


@pytest.fixture(scope="session")
def memwatch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The watcher, compiled for this host with more warnings than the image's own build asks for."""
    if shutil.which("gcc") is None:
        pytest.skip("needs the program gcc, to compile the watcher")
    program = tmp_path_factory.mktemp("memwatch") / "memwatch"
    options = ["-static", "-O2", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion"]
    subprocess.run(["gcc", *options, "-o", program, *FOLDER.glob("*.c")], check=True)
    return program
