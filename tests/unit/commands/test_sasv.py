"""`python -m asdf sasv`: the numbers of the package, fusion, and files for programs and papers."""

import json
import re

import numpy as np
import pytest

from asdf.metrics.tandem import TandemPath
from asdf.tasks.sasv.command import path_csv
from asdf.tasks.sasv.sasv_files import read_sasv_keys, read_sasv_scores, with_keys
from asdf.tasks.sasv.sasv_measures import sasv_result
from tests.unit.commands.running import Runner

run = Runner("sasv")

EVAL = ("eval.tsv", "--keys", "eval_keys.tsv")
SIZES = [30, 40, 60]


def write_set(folder, name, seed):
    """Write scores of both systems and their sum, keys, and the systems in files of their own."""
    rng = np.random.RandomState(seed)
    asv = np.round(rng.normal(np.repeat([2.0, -1.5, 1.0], SIZES), 1), 2)
    cm = np.round(rng.normal(np.repeat([1.5, 1.5, -1.5], SIZES), 1.2), 2)
    rows = ["spk\tfilename\tcm-score\tasv-score\tsasv-score\n"]
    keys, cm_rows, asv_rows = [], [], []
    for index, kind in enumerate(np.repeat([0, 1, 2], SIZES)):
        speaker, utterance = f"{name}_S{index % 5}", f"{name}_{index:03d}"
        rows.append(f"{speaker}\t{utterance}\t{cm[index]}\t{asv[index]}\t{asv[index]}\n")
        attack = "bonafide" if kind < 2 else f"A{index % 2}"
        keys.append(f"{speaker} {utterance} F {attack} {('target', 'nontarget', 'spoof')[kind]}\n")
        cm_rows.append(f"flac/{utterance}.flac {cm[index]}\n")
        asv_rows.append(f"{speaker} {utterance} {asv[index]}\n")
    for suffix, lines in (
        (".tsv", rows), ("_keys.tsv", keys), ("_cm.txt", cm_rows), ("_asv.txt", asv_rows),
    ):  # fmt: skip
        (folder / f"{name}{suffix}").write_text("".join(lines))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_set(tmp_path, "dev", 1)
    write_set(tmp_path, "eval", 2)
    return tmp_path


def value(out, name):
    return float(re.search(rf"^ *{re.escape(name)} +(\S+)", out, re.MULTILINE).group(1))


def test_metrics_of_a_score_file(capsys, folder):
    outputs = "--json out.json --csv out.csv --latex out.tex --path path.csv"
    status, out, err = run(capsys, *EVAL, "--replicates", "30", *outputs.split())
    assert (status, err) == (0, "")
    keys = read_sasv_keys("eval_keys.tsv")
    expected = sasv_result(with_keys(read_sasv_scores("eval.tsv"), keys, ""))
    assert "130: 30 target, 40 nontarget, 60 spoof" in out
    assert value(out, "min a-DCF") == pytest.approx(expected.a_dcf, abs=1e-4)
    assert value(out, "t-EER") == pytest.approx(100 * expected.t_eer, abs=1e-3)
    assert "claimed speakers only\n" in out
    assert re.search(r"^A1 +\S+", out, re.MULTILINE)
    (record,) = json.loads((folder / "out.json").read_text())
    assert record["spf_eer"] == expected.spf_eer
    assert record["cost"]["spoof_false_alarm"] == 10.0
    assert record["intervals_95"]["trials"]["a_dcf"]["low"] < expected.a_dcf
    assert [c["value"] for c in record["conditions"]] == ["A0", "A1"]
    rows = (folder / "out.csv").read_text().splitlines()
    assert rows[1].startswith(f"eval,,,30,40,60,{expected.a_dcf}")
    assert len(rows) == 4
    assert "% min a-DCF by attack" in (folder / "out.tex").read_text()
    path = (folder / "path.csv").read_text().splitlines()
    assert path[0] == "asv_threshold,cm_threshold,tandem_eer"
    assert all(0 <= float(line.split(",")[2]) <= 1 for line in path[1:])


def test_a_fusion_before_and_after(capsys, folder):
    on = ["--on", "dev.tsv", "--on-keys", "dev_keys.tsv", "--output", "fused.tsv"]
    status, out, err = run(capsys, *EVAL, "--replicates", "0", "--fuse", "nonlinear", *on)
    assert status == 0
    assert err.startswith("fusion: -log((1 - r) exp(-ASV LLR) + r exp(-CM LLR)), r = 0.840336")
    rows = {}
    for line in out.splitlines():
        found = re.match(r"^(eval|ASV alone|CM alone|fused \(nonlinear\)) +(\d\.\d+) ", line)
        if found:
            rows[found.group(1)] = float(found.group(2))
    assert set(rows) == {"eval", "ASV alone", "CM alone", "fused (nonlinear)"}
    assert rows["fused (nonlinear)"] < min(rows["ASV alone"], rows["CM alone"])
    assert "act a-DCF" in out
    # The file that was written is one that is evaluated alike.
    _, again, _ = run(capsys, "fused.tsv", "--keys", "eval_keys.tsv", "--replicates", "0")
    assert value(again, "min a-DCF") == pytest.approx(rows["fused (nonlinear)"], abs=1e-9)


def test_systems_in_files_of_their_own(capsys, folder):
    apart = ["eval_cm.txt", "--asv", "eval_asv.txt", *EVAL[1:], "--replicates", "0"]
    together = run(capsys, *EVAL, "--replicates", "0")[1]
    assert value(run.ok(capsys, *apart), "t-EER") == value(together, "t-EER")
    on = ["--on", "dev_cm.txt,dev_asv.txt", "--on-keys", "dev_keys.tsv"]
    assert "fused (linear)" in run.ok(capsys, *apart, "--fuse", "linear", *on)
    cm = folder / "eval_cm.txt"
    cm.write_text(f"{cm.read_text()}other/eval_007.flac 9\n")
    status, _, err = run(capsys, *apart)
    assert status == 1
    assert "no CM score, or those of several recordings: 'eval_007'" in err


def test_costs_change_the_a_dcf(capsys, folder):
    words = [*EVAL, "--replicates", "0"]
    usual = value(run(capsys, *words)[1], "min a-DCF")
    costs = "p_target=0.9,p_nontarget=0.05,p_spoof=0.05,cost_spoof=20"
    assert value(run(capsys, *words, "--costs", costs)[1], "min a-DCF") != usual
    run.refused(capsys, 2, "with a sum of 1", *words, "--costs", "p_target=0.5")
    run.refused(capsys, 2, "'miss=1_0' is not NAME=NUMBER", *words, "--costs", "miss=1_0")


def test_several_systems(capsys, folder):
    words = ["A=eval.tsv", "B=eval.tsv", "--keys", "eval_keys.tsv", "--replicates", "0"]
    out = run.ok(capsys, *words)
    assert re.search(r"^A +0\.\d+ .*\nB +0\.\d+ ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "give the score files"),
        (["eval.tsv"], 2, "Give them with --keys"),
        (["eval_cm.txt", "--asv", "eval_asv.txt"], 2, "Give --keys too"),
        (["eval.tsv", "--fuse", "sum", "--on", "a,b"], 2, "Give --on-keys too"),
        (["eval.tsv", "--output", "x.tsv"], 2, "Give --fuse"),
        ([*EVAL, "--by", "codec"], 2, "no column codec"),
        (["eval.tsv", "--keys", "dev_keys.tsv"], 1, "have no score"),
        ([*EVAL, "--fuse", "linear"], 2, "development set"),
        ([*EVAL, "--json", "eval.tsv"], 2, "overwrite"),
        (["eval_asv.txt", "--keys", "eval_keys.tsv", "--path", "p.csv"], 1, "no cm scores"),
    ],
)
def test_mistakes_are_one_message(capsys, folder, words, status, message):
    run.refused(capsys, status, message, *words, "--replicates", "0")


def test_a_path_leaves_out_thresholds_without_a_pair():
    numbers = [np.array(values) for values in ([0.5, 1.5], [-1.0, 2.0], [0.25, 0.5], [0, 0])]
    path = TandemPath(*numbers, gaps=np.array([0.1, np.inf]))
    assert path_csv(path) == "asv_threshold,cm_threshold,tandem_eer\n0.5,-1.0,0.25\n"
