"""`python -m asdf submission`: files of challenges, written from a list without labels, checked."""

import zipfile

import pytest

from asdf.__main__ import main
from tests.unit.commands.running import Runner

run = Runner("submission")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.txt").write_text("flac/E_2.flac 0.5\nflac/E_1.flac -1.0\n")
    (tmp_path / "trials.txt").write_text("E_1\nE_2\n")
    return tmp_path


LIST = ["--trials", "trials.txt"]
MORE = [f"F_{number}" for number in range(9)]


def test_a_submission_is_written_and_checked(capsys, folder):
    words = ["scores.txt", *LIST, "--format", "asvspoof5", "--output"]
    status, out, err = run(capsys, *words, "score.tsv")
    assert (status, err) == (0, "")
    assert out == "written to score.tsv: 2 trials, format asvspoof5\n"
    text = "filename\tcm-score\nE_1\t-1.0\nE_2\t0.5\n"
    assert (folder / "score.tsv").read_text() == text
    status, out, _ = run(capsys, "--check", "score.tsv", *LIST, "--format", "asvspoof5")
    assert (status, out) == (0, "score.tsv: 2 trials, in the format asvspoof5\n")
    # A file may have labels, of which a list without labels says nothing.
    (folder / "labelled.txt").write_text("flac/E_2.flac 1 0.5\nflac/E_1.flac 0 -1.0\n")
    assert run(capsys, "labelled.txt", *words[1:], "again.tsv")[0] == 0
    assert (folder / "again.tsv").read_text() == text
    assert run(capsys, *words, "score.zip")[0] == 0
    with zipfile.ZipFile("score.zip") as archive:
        assert archive.read("score.tsv").decode() == text


def test_decisions_at_a_threshold(capsys, folder):
    words = ["scores.txt", *LIST, "--format", "at-add", "--output", "predict.csv"]
    assert run(capsys, *words, "--threshold", "0.5")[0] == 0
    assert (folder / "predict.csv").read_text() == "name,predict\nE_1,fake\nE_2,real\n"
    status, _, err = run(capsys, *words)
    assert (status, "the format at-add has decisions: give" in err) == (2, True)


@pytest.mark.parametrize(
    ("trials", "words", "status", "message"),
    [
        ("E_1\nE_2\nE_3\n", [], 1, "1 of the 3 trials of the protocol have no score: 'E_3'"),
        (
            "\n".join(["E_1", "E_2", *MORE]),
            [],
            1,
            "have no score: 'F_0', 'F_1', 'F_2', 'F_3', 'F_4',",
        ),
        ("E_1\n", [], 1, "1 of 2 scored trials are not in the protocol"),
        ("E_1\nE_1\nE_2\n", [], 1, "1 of them repeated"),
        ("E_1\nE_2\n", ["--check", "scores.txt"], 2, "a submission needs one score file"),
        ("E_1\nE_2\n", ["--threshold", "1"], 2, "ctrsvdd has no decisions: leave out"),
        ("E_1\nE_2\n", ["--output", "trials.txt"], 2, "overwrite"),
    ],
)
def test_mistakes_are_one_message(capsys, folder, trials, words, status, message):
    (folder / "trials.txt").write_text(trials)
    fixed = ("scores.txt", *LIST, "--format", "ctrsvdd", "--output", "out.txt")
    run.refused(capsys, status, message, *fixed, *words)
    assert not (folder / "out.txt").exists()


def test_help_shows_the_formats(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "--help"])
    out = capsys.readouterr().out
    assert "ctrsvdd" in out and "name,predict" in out


def test_evaluate_does_the_same(capsys, folder):
    words = ["scores.txt", "--format", "asvspoof5", "--protocol", "trials.txt", "--submission"]
    assert main(["evaluate", *words, "new.tsv"]) == 0
    assert run(capsys, *words[:3], *LIST, "-o", "old.tsv")[0] == 0
    assert (folder / "new.tsv").read_bytes() == (folder / "old.tsv").read_bytes()
    capsys.readouterr()
    checked = ["new.tsv", "--check", "--protocol", "trials.txt", "--format", "asvspoof5"]
    assert main(["evaluate", *checked]) == 0
    assert capsys.readouterr().out == "new.tsv: 2 trials, in the format asvspoof5\n"
