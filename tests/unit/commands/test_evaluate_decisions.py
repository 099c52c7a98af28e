"""`python -m asdf evaluate` at a threshold, and of decisions instead of scores."""

import json
import re

import pytest

from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.metrics.calibration import Calibration
from tests.unit.commands.running import Runner, value

run = Runner("evaluate")

# On dev the best macro-F1 is that from 0.5 on; 0.5 accepts one of three spoofs of the eval set and
# misses one of four bona fide trials.
DEV = "d1 1 1.0\nd2 1 2.0\nd3 0 0.0\nd4 0 -1.0\n"
EVAL = "b1 1 0.5\nb2 1 1.0\nb3 1 2.0\nb4 1 -0.2\ns1 0 0.7\ns2 0 0.0\ns3 0 -3.0\n"
# AT-ADD, track 2. Right: of speech 2 of 2 real and 1 of 2 fake, of music 1 of 2 and 1 of 1.
LABELS = (
    "name,label,type\nb1.wav,real,speech\nb2.wav,real,speech\ns1.wav,fake,speech\n"
    "s2.wav,fake,speech\nb3.wav,real,music\nb4.wav,real,music\ns3.wav,fake,music\n"
)
PREDICTED = (
    "name,predict\nb1.wav,real\nb2.wav,real\nb3.wav,real\nb4.wav,fake\ns1.wav,real\n"
    "s2.wav,fake\ns3.wav,fake\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("dev.txt", DEV), ("eval.txt", EVAL)):
        (tmp_path / name).write_text(text)
    (tmp_path / "eval.csv").write_text(LABELS)
    (tmp_path / "predict.csv").write_text(PREDICTED)
    return tmp_path


def test_the_threshold_of_another_set(capsys, folder):
    words = ["--threshold-from", "dev.txt", "--threshold-by", "best-f1", "--replicates", "50"]
    outputs = ["--json", "out.json", "--csv", "out.csv"]
    status, out, err = run(capsys, "eval.txt", *words, *outputs)
    assert (status, err) == (0, "")
    assert "threshold            0.5000   at the best macro-F1 of dev.txt\n" in out
    # By hand: F1 of bona fide 6/8, of spoof 4/6.
    assert value(out, "macro-F1") == f"{100 * (6 / 8 + 4 / 6) / 2:.2f}"
    assert value(out, "accuracy") == f"{100 * 5 / 7:.2f}"
    (record,) = json.loads((folder / "out.json").read_text())
    decisions = record["decisions"]
    assert decisions["threshold"] == 0.5
    assert decisions["accepted_bona_fide"] == 3
    assert decisions["accepted_spoof"] == 1
    assert decisions["recall_spoof"] == 2 / 3
    assert set(decisions["intervals_95"]["trials"]) >= {"accuracy", "macro_f1"}
    head, row = (folder / "out.csv").read_text().splitlines()
    cells = dict(zip(head.split(","), row.split(","), strict=True))
    assert float(cells["f1_bona_fide"]) == 6 / 8
    assert float(cells["threshold"]) == 0.5


def test_a_stated_threshold_and_that_of_the_judged_trials(capsys, folder):
    _, out, _ = run(capsys, "eval.txt", "--threshold", "-0.5", "--replicates", "0")
    assert value(out, "accuracy") == f"{100 * 5 / 7:.2f}"
    assert value(out, "recall bona fide") == "100.00"
    _, _, err = run(capsys, "eval.txt", "--threshold-from", "eval.txt", "--replicates", "0")
    assert err.startswith("warning: 7 of the 7 evaluated trials are also in eval.txt")


def test_the_threshold_of_a_calibrated_network(capsys, folder, network_file):
    with pytest.raises(SystemExit):
        main(["evaluate", "eval.txt", "--threshold", "1", "--threshold-of", str(network_file)])
    capsys.readouterr()
    assert run(capsys, "eval.txt", "--threshold-of", network_file)[0] == 1
    file = read_network_file(network_file)
    file.calibration = Calibration(scale=2.0, offset=1.0, threshold=2.0).content()
    write_network_file(folder / "net.pt", file)
    out = run.ok(capsys, "eval.txt", "--threshold-of", "net.pt", "--replicates", "0")
    assert float(value(out, "threshold")) == 0.5


def test_decisions_of_a_macro_f1_challenge(capsys, folder):
    words = ["--protocol", "eval.csv", "--decisions", "--by", "type", "--replicates", "50"]
    outputs = ["--json", "out.json", "--latex", "out.tex"]
    status, out, err = run(capsys, "predict.csv", *words, *outputs)
    assert (status, err) == (0, "")
    speech = (4 / 5 + 2 / 3) / 2
    music = (2 / 3 + 2 / 3) / 2
    assert re.search(rf"^music +66.67 +75.00 +{100 * music:.2f}", out, re.MULTILINE)
    assert re.search(rf"^mean +\S+ +\S+ +{100 * (speech + music) / 2:.2f}", out, re.MULTILINE)
    assert value(out, "macro-F1") == f"{100 * (6 / 8 + 4 / 6) / 2:.2f}"
    # What needs scores is neither shown nor written.
    assert "EER" not in out
    assert "DCF" not in out
    (record,) = json.loads((folder / "out.json").read_text())
    assert record["eer"] is None
    assert record["means"]["type"]["macro_f1"] == (speech + music) / 2
    latex = (folder / "out.tex").read_text()
    assert "% macro-F1 in per cent by type" in latex
    assert f"{100 * (speech + music) / 2:.2f}" in latex
    assert "EER" not in latex


def test_several_systems_have_a_threshold_each(capsys, folder):
    words = ["A=eval.txt", "B=eval.txt", "--replicates", "0", "--threshold-from", "dev.txt"]
    run.refused(capsys, 2, "--threshold-from is given 1 times for 2 systems", *words)
    (folder / "dev2.txt").write_text(DEV.replace("d2 1 2.0", "d2 1 -3.0"))
    more = ["--threshold-from", "dev2.txt", "--threshold-by", "best-accuracy"]
    out = run.ok(capsys, *words, *more)
    assert value(out, "threshold") == "0.5000"
    assert out.count("best accuracy of dev2.txt") == 1


def test_a_threshold_from_scores_with_a_protocol(capsys, folder):
    (folder / "bare.txt").write_text("d1 1.0\nd2 2.0\nd3 0.0\nd4 -1.0\n")
    (folder / "p.txt").write_text("d1 bonafide\nd2 bonafide\nd3 spoof\nd4 spoof\n")
    words = ["--threshold-from", "bare.txt", "--threshold-protocol", "p.txt", "--replicates", "0"]
    out = run.ok(capsys, "eval.txt", *words)
    assert value(out, "threshold") == "0.5000"
    assert value(out, "balanced accuracy") == f"{100 * (3 / 4 + 2 / 3) / 2:.2f}"
