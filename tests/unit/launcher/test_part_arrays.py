"""The scripts of an array of parts, run by bash as Slurm would, with a stub in Python's place."""

import os
import signal
import subprocess
import time

import pytest

from asdf.launcher.slurm import PartArray, sbatch_words, task_ranges, write_scripts
from tests.conftest import PATIENCE_S

# Notes its words, and ends as the file `status` says; a part that is held waits for SIGTERM.
STUB = """#!/bin/bash
printf '%s\\n' "$*" >> words
[ ! -e hold ] || { trap 'echo saved >> words; exit 143' TERM; touch held; sleep 60 & wait $!; }
exit "$(cat status)"
"""


@pytest.fixture
def array(tmp_path, monkeypatch) -> PartArray:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name, text in {"stub": STUB, "scontrol": '#!/bin/bash\necho "$*" >> words\n'}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (folder / "list.txt").write_text("a.wav 1\n")
    (folder / "status").write_text("0")
    monkeypatch.setenv("ASDF_PYTHON", str(tmp_path / "stub"))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = ("net.pt", "list.txt", "--scores", "a score.txt")
    made = PartArray(words, words[:2], 3, folder / "a score.txt", folder)
    write_scripts(made)
    return made


def run(array: PartArray, script: str, part: int | None = None) -> int:
    variables = {"SLURM_ARRAY_JOB_ID": "7"}
    if part is not None:
        variables["SLURM_ARRAY_TASK_ID"] = str(part)
    command = ["bash", str(array.scripts / script)]
    return subprocess.run(command, env={**os.environ, **variables}, timeout=PATIENCE_S).returncode


def said(array: PartArray) -> list[str]:
    return (array.folder / "words").read_text().splitlines()


def test_a_task_does_its_part_in_the_folder_of_the_command_and_marks_it(array):
    assert array.missing() == [1, 2, 3]
    assert run(array, "parts.sh", 2) == 0
    assert said(array) == ["-m asdf score net.pt list.txt --scores a score.txt --part 2/3"]
    assert array.missing() == [1, 3]
    # Another list of the same name is other work.
    (array.folder / "list.txt").write_text("a.wav 1\nb.wav 0\n")
    assert array.missing() == [1, 2, 3]


@pytest.mark.parametrize("status", [1, 2, 130])
def test_a_part_that_ends_badly_is_not_marked(array, status):
    (array.folder / "status").write_text(str(status))
    assert run(array, "parts.sh", 2) == status
    assert array.missing() == [1, 2, 3]


def test_a_part_near_its_time_limit_is_saved_and_queued_again(array):
    (array.folder / "hold").touch()
    process = subprocess.Popen(
        ["bash", str(array.scripts / "parts.sh")],
        env={**os.environ, "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"},
    )
    until = time.monotonic() + PATIENCE_S
    while not (array.folder / "held").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(PATIENCE_S) == 0
    assert said(array)[1:] == ["saved", "requeue 7_3"]
    assert array.missing() == [1, 2, 3]


@pytest.mark.parametrize(
    ("status", "is_merged", "missing"),
    [(0, True, [1, 2, 3]), (1, False, [1, 2, 3]), (2, False, [2, 3])],
)
def test_what_is_merged_is_gone_from_the_parts(array, status, is_merged, missing):
    run(array, "parts.sh", 1)
    (array.folder / "status").write_text(str(status))
    array.output.touch()
    assert run(array, "merge.sh") == status
    assert said(array)[-1] == "-m asdf score net.pt list.txt --scores a score.txt --merge"
    assert (array.is_merged(), array.missing()) == (is_merged, missing)
    array.output.unlink()
    assert not array.is_merged()


def test_only_missing_parts_are_submitted(array):
    run(array, "parts.sh", 2)
    words = sbatch_words(array, array.missing(), 2, ["--time=1:00:00"])
    assert list(words) == ["parts.sh", "merge.sh"]
    assert words["parts.sh"][0] == "--array=1,3%2" and words["parts.sh"][-1] == "--time=1:00:00"
    assert f"--comment=asdf-parts:{array.scripts}" in words["merge.sh"]
    assert list(sbatch_words(array, [], None, [])) == ["merge.sh"]


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([4], "4"), ([1, 2, 3], "1-3"), ([1, 3, 4, 9], "1,3-4,9")]
)
def test_numbers_are_ranges(numbers, text):
    assert task_ranges(numbers) == text
