"""ASDF is imported and scores where modules, functions and signals of Linux are missing."""

import ast
import errno
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import soundfile

from asdf.runs import systems
from tests.other_systems import MODULES, OF_OS, OF_SIGNAL
from tests.sources import FILES, nodes
from tests.unit.conftest import sound

ROOT = Path(__file__).resolve().parents[3]
# Code of what is promised on Linux alone, or that looks before it calls.
OF_LINUX = {
    "data/loaders.py": {"pthread_sigmask"},
    "distributed/devices.py": {"sched_getaffinity"},
    "launcher/processes.py": {"SIGKILL"},
    "launcher/slurm.py": {"getuid"},
}
IMPORT_ALL = """
import asdf, importlib, pkgutil
names = [module.name for module in pkgutil.walk_packages(asdf.__path__, "asdf.")]
# It derives from a class of transformers, which looks at the real system.
names.remove("asdf.scoring.transformers_model")
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names) > 400)
"""
SCORE = """
import json, sys, threading
from asdf import Detector
from asdf.doctor.command import look_at_machine
detector = Detector(sys.argv[1], device="cpu")
scores = [float(detector.score_trial(path)) for path in sys.argv[2:]]
findings = [finding.text for finding in look_at_machine()]
print(json.dumps({"scores": scores, "system": findings[0]}))
"""
LOCKS = """
import errno, os, sys
from tests.other_systems import become
become("windows", first=())
from asdf.runs import systems
file = open(sys.argv[1], "rb+")
try:
    systems.lock(file, wait=True)
except OSError as error:
    assert error.errno == errno.ENOLCK
systems.unlock(file)
assert not systems.can_lock(file)
file.seek(2)
assert systems.read_at(file.fileno(), 3, 1) == b"bcd"
assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 2
assert systems.peak_memory_bytes() is None
assert [number.name for number in systems.existing_signals("SIGTERM", "SIGUSR1")] == ["SIGTERM"]
systems.call_in_forked_processes(print)
assert systems.open_flags("O_CLOEXEC", "O_NONBLOCK") == 0
print("as stated")
"""


def run_as(system: str, *words: str, status: int = 0) -> str:
    """The output of a program on a system, or its errors if it is to fail; '' is this one."""
    module = ["-m", "tests.other_systems", system] if system else []
    command = [sys.executable, *module, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def write(path: Path, samples: int) -> Path:
    soundfile.write(path, sound(samples, seed=samples), 16000)
    return path


@pytest.fixture
def recordings(tmp_path) -> list[Path]:
    """A recording by itself, and one in a tar."""
    paths = [write(tmp_path / "alone.wav", 12000), write(tmp_path / "member.wav", 13000)]
    with tarfile.open(tmp_path / "packed.tar", "w") as tar:
        tar.add(paths[1], "member.wav")
    return [paths[0], tmp_path / "packed" / "member.wav"]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_the_detector_scores_the_same_bits_without_what_a_system_lacks(
    tmp_path, network_file, recordings, system
):
    script = tmp_path / "score.py"
    script.write_text(SCORE)
    words = (str(script), str(network_file), *map(str, recordings))
    expected = json.loads(run_as("", *words))
    result = json.loads(run_as(system, *words))
    assert result["scores"] == expected["scores"] and len(set(result["scores"])) == 2
    assert expected["system"].startswith("Linux ")
    name = {"windows": "Windows", "macos": "macOS"}[system]
    assert result["system"].startswith(f"{name}: scoring on the CPU (score, Detector, evaluate, ")
    assert "Not supported: training, several processes or GPUs, launching" in result["system"]


@pytest.mark.slow
def test_the_command_writes_the_same_score_file_without_locks(tmp_path, network_file):
    for number, name in enumerate(("first.wav", "second.wav")):
        write(tmp_path / name, 5000 + number)
    (tmp_path / "list.txt").write_text("first.wav 1\nsecond.wav 0\n")
    files = []
    for system in ("", "windows"):
        out = tmp_path / f"scores{system}.txt"
        words = ("score", str(network_file), str(tmp_path / "list.txt"), "--scores", str(out))
        run_as(system, "-m", "asdf", *words, "--device", "cpu")
        files.append(out.read_bytes())
    assert files[0] == files[1] and files[0].count(b"\n") == 2


@pytest.mark.slow
def test_every_module_is_imported_on_windows(tmp_path):
    script = tmp_path / "import_all.py"
    script.write_text(IMPORT_ALL)
    assert run_as("windows", str(script)) == "True\n"


def test_locks_limits_and_reads_have_another_way(tmp_path):
    (tmp_path / "file").write_bytes(b"abcdef")
    assert run_as("", "-c", LOCKS, str(tmp_path / "file")) == "as stated\n"


@pytest.mark.slow
def test_launch_is_refused_on_windows():
    words = ("-m", "asdf", "launch", "recipes/wav2vec_aasist/run.py", "quickstart")
    message = "launch starts each run in its own session, which this operating system does not"
    assert message in run_as("windows", *words, status=2)


def test_what_a_system_lacks_is_named_in_one_file():
    lacking = {*OF_OS["windows"], *OF_OS["macos"], *OF_SIGNAL["windows"], *OF_SIGNAL["macos"]}
    words = re.compile(rf"\b({'|'.join([*lacking, *MODULES['windows']])})\b")
    named: dict[str, set[str]] = {}
    for path in FILES:
        if not words.search(path.read_text(encoding="utf-8")):
            continue
        for node in nodes(path):
            names = _names_of_systems(node, lacking)
            if names:
                named.setdefault(path.relative_to(ROOT / "asdf").as_posix(), set()).update(names)
    del named["runs/systems.py"]
    assert named == OF_LINUX


def _names_of_systems(node: ast.AST, lacking: set[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & {*MODULES["windows"]}
    if isinstance(node, ast.ImportFrom):
        return {node.module or ""} & {*MODULES["windows"]}
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return {node.attr} & lacking if node.value.id in ("os", "signal") else set()
    return set()


def test_a_lock_is_one_process_s_and_ends_with_its_file(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as first, path.open("w") as second:
        assert systems.can_lock(first)
        with pytest.raises(BlockingIOError):
            systems.can_lock(second)
        systems.unlock(first)
        assert systems.can_lock(second)


def test_a_file_system_without_locks_is_not_a_failure(tmp_path, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(systems.fcntl, "flock", refuse)
    with (tmp_path / "lock").open("w") as file:
        assert not systems.can_lock(file)


@pytest.mark.skipif(not hasattr(os, "pread"), reason="needs os.pread")
def test_forked_processes_read_one_descriptor_at_the_same_time(tmp_path):
    """They share its position, which reading must not move."""
    content = bytes(range(256)) * 16
    (tmp_path / "blocks").write_bytes(content)
    begin, release = os.pipe()
    with (tmp_path / "blocks").open("rb") as file:
        children = []
        for child in range(3):
            children.append(os.fork())
            if children[-1] == 0:
                os.close(release)
                os.read(begin, 1)
                starts = [(child + 1) * number * 97 % 4000 for number in range(20_000)]
                blocks = [systems.read_at(file.fileno(), 8, start) for start in starts]
                expected = [content[start : start + 8] for start in starts]
                os._exit(int(blocks != expected))
        os.close(release)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    os.close(begin)
