"""`python -m asdf localise`: metrics of frame scores from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.segments import Segment, Timed, merged, write_rttm

REFERENCE = Path(__file__).parents[2] / "fixtures" / "localisation.npz"


WORDS = ("localise", "frames.txt", "rttm", "--hop", "0.02")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The reference recordings as a text of frame scores and an RTTM."""
    folder = tmp_path_factory.mktemp("localise")
    with np.load(REFERENCE) as data:
        frames = data["frames"]
        segments = data["segments"]
    lines = []
    for number, frame, score, _ in frames.tolist():
        lines.append(f"u{number:.0f} {frame:.0f} {score!r} {-score!r}\n")
    (folder / "frames.txt").write_text("".join(lines))
    recordings = {}
    for number in range(30):
        parts = segments[segments[:, 0] == number].tolist()
        spoofed = merged(Segment(start, end) for _, start, end, label in parts if label == 0)
        recordings[f"u{number}"] = Timed(spoofed, parts[-1][2])
    write_rttm(folder / "rttm", recordings)
    return folder


@pytest.fixture
def folder(written, monkeypatch):
    monkeypatch.chdir(written)
    return written


def test_the_table_and_the_json_have_the_reference_values(folder, capsys):
    assert main([*WORDS, "--resolution", "0.02,0.16", "--json", "out.json"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "frames.txt: 30 recordings"
    assert table[2].split()[:3] == ["any", "(range)", "26.8310"]
    assert [line.split()[0] for line in table[3:5]] == ["0.02", "0.16"]
    assert "at the EER of these recordings themselves" in table[-2]
    assert table[-1].startswith("95 % over 30 recordings: range EER 2")
    result = json.loads((folder / "out.json").read_text())
    with np.load(REFERENCE) as data:
        expected = float(data["range_eer_resolution_1000000"])
    assert result["range_eer"]["rate"] == pytest.approx(expected, abs=1e-13)
    assert [point["hop_s"] for point in result["points"]] == [0.02, 0.16]
    assert result["intervals"]["range_eer"]["low"] < expected
    assert expected < result["intervals"]["range_eer"]["high"]
    assert list(result["intervals"]) == ["range_eer", "f1", "iou", "groups"]
    assert result["intervals"]["groups"] == result["intervals"]["iou"]["groups"] == 30
    # Near the threshold of the EER about a fourth of both is wrong.
    assert 0.5 < result["agreement"]["iou"] < result["agreement"]["f1"] < 0.8


def test_a_threshold_is_taken_as_it_is_stated(folder, capsys):
    assert main([*WORDS, "--replicates", "0", "--threshold", "-99"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()[2:4]]
    assert lines[0][3] == lines[1][3] == "-99"
    assert "at the threshold of each line\n" in out and "0.0000  0.0000" in out


def test_each_resolution_may_have_a_threshold(folder, capsys):
    words = [*WORDS, "--replicates", "0", "--resolution", "0.02,0.16"]
    assert main([*words, "--threshold", "0.5,-0.25", "--json", "out.json"]) == 0
    result = json.loads((folder / "out.json").read_text())
    assert result["threshold"] == 0.5
    assert [point["threshold"] for point in result["points"]] == [0.5, -0.25]
    assert main([*words, "--threshold", "0.5,1,2"]) == 2
    assert "3 thresholds for 2 frame lengths" in capsys.readouterr().err
    assert main([*words, "--threshold", "1_0"]) == 2
    assert "expected numbers" in capsys.readouterr().err


def test_recordings_of_one_file_alone_are_an_error_or_left_out(folder, capsys):
    lines = (folder / "rttm").read_text().splitlines(keepends=True)
    (folder / "fewer").write_text("".join(line for line in lines if " u29 " not in line))
    words = ["localise", "frames.txt", "fewer", "--hop", "0.02"]
    assert main(words) == 1
    assert "frames.txt has 1 recordings that are not in fewer: 'u29'" in capsys.readouterr().err
    assert main([*words, "--ignore-others"]) == 0
    captured = capsys.readouterr()
    assert "29 recordings" in captured.out and "ignored: " in captured.err
    frames = (folder / "frames.txt").read_text()
    (folder / "twice.txt").write_text(f"{frames}x/u7.wav 0 0.5 -0.5\n")
    assert main(["localise", "twice.txt", *words[2:], "--ignore-others"]) == 1
    assert "twice.txt: 'x/u7.wav' also has scores under another name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--replicates", "7"], "needs at least 20 replicates"),
        (["--resolution", "x"], "expected seconds"),
        (["--resolution", "0.02,-1"], "expected seconds"),
        (["--resolution", "0.05"], "is not a multiple of 0.02 s"),
    ],
)
def test_mistakes_are_named(folder, capsys, words, reason):
    assert main([*WORDS, *words]) in (1, 2)
    assert reason in capsys.readouterr().err
