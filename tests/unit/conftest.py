import shutil
import subprocess
from pathlib import Path

import pytest

VM = Path(__file__).parents[2] / "vm"


def compiled(source: Path, folder: Path) -> Path:
    """A program of the machines, compiled for this host with more warnings than the image's own build asks for."""
    if shutil.which("gcc") is None:
        pytest.skip(f"needs the program gcc, to compile {source.name}")
    program = folder / source.name
    options = ["-static", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion"]
    subprocess.run(["gcc", *options, "-o", program, *source.glob("*.c")], check=True)
    return program


@pytest.fixture(scope="session")
def memload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(VM / "workload" / "memload", tmp_path_factory.mktemp("memload"))


@pytest.fixture(scope="session")
def memwatch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(VM / "probe" / "memwatch", tmp_path_factory.mktemp("memwatch"))
