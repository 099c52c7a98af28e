"""Astronomy's asdf in the same environment: who is imported, and what is said about it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

NEIGHBOUR_FILES = {
    "asdf/__init__.py": "NAME = 'astronomy'\n",
    # Up to version 4 it has a folder of this name as well.
    "asdf/commands/__init__.py": "raise ModuleNotFoundError('semantic_version')\n",
}
PRINT_BOTH = (
    "import asdf_antispoofing, asdf; "
    "print(asdf.__version__, asdf_antispoofing.__version__, asdf.__file__)"
)
# In a process that multiprocessing starts, and in one that a program starts.
IN_CHILDREN = """
import asdf_antispoofing, multiprocessing, subprocess, sys
from asdf.text import printable
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(printable, ["a\\x1b"]))
    subprocess.run([sys.executable, "-c", "import asdf; print(asdf.__version__)"], check=True)
"""


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
def test_the_safe_name_leads_to_asdf_whatever_was_installed_last(installed, neighbour, wheel):
    site = installed.site.resolve()
    alone = installed.call(PRINT_BOTH, "-W", "error")
    assert (alone.stdout, alone.stderr) == (f"0.2.0 0.2.0 {site / 'asdf/__init__.py'}\n", "")

    installed.install(str(neighbour))
    assert installed.call("import asdf; print(asdf.NAME)").stdout == "astronomy\n"
    check_copy_is_used(installed, "asdf 4.1.0 has overwritten files of asdf-antispoofing")

    installed.uninstall("asdf")
    assert not (site / "asdf/__init__.py").exists()
    check_copy_is_used(installed, "since removed, has overwritten files of asdf-antispoofing")

    # The command of the message.
    installed.install("--force-reinstall", str(wheel))
    mended = installed.call(PRINT_BOTH, "-W", "error")
    assert (mended.stdout, mended.stderr) == (alone.stdout, "")


def check_copy_is_used(installed, what_happened: str) -> None:
    copy = installed.site.resolve() / "asdf_antispoofing/_copy/asdf/__init__.py"
    both = installed.call(PRINT_BOTH)
    assert both.stdout == f"0.2.0 0.2.0 {copy}\n", both.stderr
    assert what_happened in both.stderr
    assert "pip install --force-reinstall --no-deps asdf-antispoofing" in both.stderr
    program = installed.run(installed.program, "new-recipe", "--list")
    assert (program.returncode, program.stdout) == (0, "wav2vec_aasist  wav2vec 2.0 + AASIST\n")
    assert what_happened in program.stderr
    script = installed.folder / "children.py"
    script.write_text(IN_CHILDREN)
    children = installed.run(installed.python, str(script))
    assert children.stdout == "['a\\\\x1b']\n0.2.0\n", children.stderr
    # What is reached of ASDF by the other name says the same instead of half working.
    for command in (("-m", "asdf", "networks"), ("-c", "from asdf.evaluation import eer")):
        reached = installed.run(installed.python, *command)
        assert (reached.returncode, reached.stdout) == (1, "")
        assert "ImportError: " in reached.stderr
        assert what_happened in reached.stderr


@pytest.mark.slow
def test_one_process_cannot_have_both(installed, neighbour):
    installed.install(str(neighbour))
    ended = installed.call("import asdf, asdf_antispoofing")
    assert ended.returncode == 1
    assert "ImportError: asdf 4.1.0 has overwritten files of asdf-antispoofing" in ended.stderr


@pytest.mark.slow
def test_asdf_installed_last_warns_of_the_neighbour(environment, neighbour, wheel):
    environment.install(str(neighbour))
    environment.install("--force-reinstall", str(wheel))
    ended = environment.call(PRINT_BOTH)
    assert ended.stdout.startswith("0.2.0 0.2.0 ")
    assert "asdf 4.1.0, another distribution with the import name asdf, is installed" in (
        ended.stderr
    )
    examined = environment.call(
        "from asdf.doctor.running import run_group\n"
        "for finding in run_group('installation', 100):\n"
        "    print(finding.status, finding.name, finding.mend)"
    )
    assert "warning import name Install the two in separate environments." in examined.stdout


@pytest.mark.slow
def test_a_folder_called_asdf_in_the_way_is_passed_by(installed, tmp_path):
    (tmp_path / "asdf").mkdir()
    (tmp_path / "asdf" / "__init__.py").write_text("NAME = 'of a project'\n")
    ended = installed.run(installed.python, "-c", PRINT_BOTH, folder=tmp_path)
    assert ended.stdout.startswith("0.2.0 0.2.0 "), ended.stderr
