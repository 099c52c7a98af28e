"""`score --slurm N` on a real Slurm: parts as an array, their merge behind it, once."""

import re

import pytest
import soundfile

from asdf.__main__ import main
from tests.scripts.slurm_lab import Job
from tests.unit.conftest import small_settings, sound, write_small_network

OPTIONS = ("--", "--mem=1G", "--cpus-per-task=1")
OUTPUTS = ("--scores", "out.txt", "--csv", "out.csv")
NAMES = ("out.txt", "out.csv", "out.scored.json")
WORDS = ("score", "net.pt", "list.txt", "--device", "cpu", "--threads", "1")


@pytest.fixture
def folder(lab, monkeypatch):
    folder = lab.folder
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    write_small_network(folder / "net.pt", settings)
    lines = []
    for number in range(7):
        soundfile.write(folder / f"r{number}.wav", sound(6000 + 300 * number, number), 16000)
        lines.append(f"r{number}.wav {number % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
def test_parts_are_an_array_and_only_what_is_missing_is_done_again(folder, capsys):
    assert main([*WORDS, *OUTPUTS]) == 0
    whole = {name: (folder / name).read_bytes() for name in NAMES}
    for name in NAMES:
        (folder / name).unlink()

    def submit(*words):
        capsys.readouterr()
        status = main([*WORDS, *OUTPUTS, "--slurm", "2", *words, *OPTIONS])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    _, said = submit("--max-running", "1")
    array, merge = re.findall(r"as job (\d+)", said)
    assert "submitted 2 of 2 parts" in said
    Job(f"{array}_2").cancel()
    # Whatever waits for the same output is not submitted twice.
    status, said = submit()
    assert status == 2 and "is being computed" in said
    assert Job(merge).wait().status == 2
    home = folder / "out.csv.slurm"
    assert "out.csv lacks 1 of 2 parts: 2. Run" in (home / "merge.log").read_text()
    _, said = submit()
    assert "submitted 1 of 2 parts" in said
    assert Job(re.findall(r"as job (\d+)", said)[1]).wait().status == 0
    for name, content in whole.items():
        assert (folder / name).read_bytes() == content
    assert "nothing to submit" in submit()[1]
