"""Parts of a list that Slurm scores: words, scripts, mistakes."""

import pytest

from asdf.__main__ import main
from asdf.commands.journal import split_sbatch, without_division


@pytest.fixture
def score(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pt").touch()
    (tmp_path / "list.txt").write_text("a.wav 1\n")

    def run(*words):
        status = main(["score", "net.pt", "list.txt", *words])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    run.folder = tmp_path
    return run


def test_words_of_one_process():
    words = ["net.pt", "--slurm", "4", "a.txt", "--max-running=2", "--csv", "o", "--dry-run"]
    assert without_division(words) == ["net.pt", "a.txt", "--csv", "o"]
    assert without_division(["--part", "1/2", "x", "--merge"]) == ["x"]


def test_options_of_sbatch_stand_behind_dashes():
    words = ["net.pt", "list.txt", "--slurm=2", "--", "--time=1", "-p", "gpu"]
    assert split_sbatch(words) == (words[:3], ["--time=1", "-p", "gpu"])
    assert split_sbatch(["net.pt", "--", "-odd.wav"]) == (["net.pt", "--", "-odd.wav"], [])


def test_a_dry_run_prints_what_would_be_submitted(score):
    status, said = score("--csv", "o.csv", "--slurm", "4", "--dry-run", "--", "--partition=gpu")
    assert status == 0
    home = score.folder / "o.csv.slurm"
    lines = said.splitlines()
    first, second = (line for line in lines if line.startswith("# sbatch "))
    assert "--array=1-4" in first and "--partition=gpu" in first and str(home / "parts.sh") in first
    assert "--array" not in second and str(home / "merge.sh") in second
    assert any(
        line.endswith('-m asdf score net.pt list.txt --csv o.csv --part "$SLURM_ARRAY_TASK_ID/4" &')
        for line in lines
    )
    assert not home.exists()


def test_whatever_a_command_reads_is_in_the_digest_of_its_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kept = ("sounds/notes.md", "sounds/.hidden.py", "out.slurm/merged")
    named = ("net.pt", "list.txt", "base.pt", "turns.rttm", "code/mine.py")
    named += ("noise/deep/a.flac",)
    for name in (*kept, *named):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    words = ["score", "net.pt", "list.txt", "noise", "--csv", "out"]
    words += ["--rttm", "turns.rttm", "--base", "base.pt", "--network-folder", "code"]

    def script() -> str:
        assert main([*words, "--slurm", "2", "--dry-run"]) == 0
        return capsys.readouterr().out

    before = script()
    changed = set()
    for name in (*kept, *named):
        (tmp_path / name).write_text(f"{name} again")
        if script() != before:
            changed.add(name)
        before = script()
    assert changed == set(named)


def test_without_slurm_here_it_says_so(score, monkeypatch):
    monkeypatch.setenv("PATH", str(score.folder))
    status, said = score("--csv", "o.csv", "--slurm", "4")
    assert status == 2 and "sbatch was not found" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--slurm", "2", "--merge", "--csv", "o"), "--merge and --slurm exclude each other"),
        (("--part", "1/2", "--merge"), "--part and --merge exclude each other"),
        (("--part", "3/2"), "write K/N, from 1/N to N/N"),
        (("--slurm", "0", "--csv", "o"), "give a number from 1"),
        (("--slurm", "2"), "--merge and --slurm"),
        (("--slu", "2", "--csv", "o"), "an option is abbreviated"),
        (("--csv", "o", "--dry-run"), "need --slurm N"),
        (("--slurm", "2", "--csv", "o", "--max-running", "0"), "give a number from 1"),
        (("-", "--slurm", "2", "--csv", "o"), "cannot share standard input"),
        (("--slurm", "2", "--csv", "o", "--", "--array=1"), "the array is set by"),
    ],
)
def test_mistakes(score, words, said):
    status, output = score(*words)
    assert status == 2 and said in output
