"""Astronomy's asdf in the same environment: who is imported, and what is said about it."""

import zipfile
from pathlib import Path

import pytest

NEIGHBOUR_FILES = {
    "asdf/__init__.py": "NAME = 'astronomy'\n",
    # Up to version 4 it has a folder of this name as well.
    "asdf/commands/__init__.py": "raise ModuleNotFoundError('semantic_version')\n",
}
PRINT = "import asdf; print(asdf.__version__, asdf.__file__)"


@pytest.fixture
def neighbour(tmp_path) -> Path:
    """A wheel of another distribution, called asdf."""
    path = tmp_path / "asdf-4.1.0-py3-none-any.whl"
    files = {
        **NEIGHBOUR_FILES,
        "asdf-4.1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: asdf\nVersion: 4.1.0\n",
        "asdf-4.1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "asdf-4.1.0.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in (*files, record))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.slow
def test_the_other_one_installed_last_is_named_by_the_command_and_every_module(
    installed, neighbour, wheel
):
    site = installed.site.resolve()
    alone = installed.call(PRINT, "-W", "error")
    assert (alone.stdout, alone.stderr) == (f"0.2.0 {site / 'asdf/__init__.py'}\n", "")
    installed.install(str(neighbour))
    assert installed.call("import asdf; print(asdf.NAME)").stdout == "astronomy\n"
    refused(installed, "asdf 4.1.0 is installed beside asdf-antispoofing in ")
    installed.uninstall("asdf")
    assert not (site / "asdf/__init__.py").exists()
    refused(installed, "mend this environment: pip install --force-reinstall --no-deps asdf-anti")
    # The command of the message.
    installed.install("--force-reinstall", str(wheel))
    mended = installed.call(PRINT, "-W", "error")
    assert (mended.stdout, mended.stderr) == (alone.stdout, "")


def refused(installed, reason: str) -> None:
    program = installed.run(installed.program, "new-recipe", "mine")
    assert (program.returncode, program.stdout) == (1, "")
    assert program.stderr.startswith("error: asdf is ") and reason in program.stderr
    for command in (("-m", "asdf", "corpora"), ("-c", "from asdf.evaluation import eer")):
        reached = installed.run(installed.python, *command)
        assert (reached.returncode, reached.stdout) == (1, "")
        assert "ImportError: asdf is " in reached.stderr and reason in reached.stderr


@pytest.mark.slow
def test_asdf_installed_last_warns_of_the_neighbour(environment, neighbour, wheel):
    environment.install(str(neighbour))
    environment.install("--force-reinstall", str(wheel))
    ended = environment.call(PRINT)
    assert ended.stdout.startswith("0.2.0 ")
    assert "asdf 4.1.0 is installed beside asdf-antispoofing in " in ended.stderr
    examined = environment.run(environment.program, "doctor")
    assert "warning   import name: asdf 4.1.0 is installed beside" in examined.stdout
