"""`python -m asdf evaluate`: its JSON has the official packages' digits, and reports mistakes."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.evaluation import cllr, eer
from asdf.metrics.calibration import Calibration
from asdf.trials.how_scored import PUBLISHED, WHOLE, HowScored
from asdf.trials.scored_files import write_how_scored
from tests.unit.conftest import write_small_network
from tests.unit.metrics.test_reference_values import TABLE

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "scores"
RNG = np.random.default_rng(2)
COUNT = 90
NAMES = [f"E_{i:03d}" for i in range(COUNT)]
LABELS = [int(i % 3 == 0) for i in range(COUNT)]
VALUES = (RNG.normal(0, 1, COUNT) + 2 * np.array(LABELS)).round(3)
SUBSETS = ["eval" if i < 60 else "progress" for i in range(COUNT)]


def run(capsys, *words):
    status = main(["evaluate", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def value(out, name):
    """The first number behind a name at the beginning of a line."""
    return re.search(rf"^ *{re.escape(name)} +(\S+)", out, re.MULTILINE).group(1)


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("".join(f"{name} {score}\n" for name, score in zip(NAMES, VALUES, strict=True)))
    return path


@pytest.fixture
def protocol(tmp_path):
    """In the format of ASVspoof 2021 LA."""
    path = tmp_path / "trial_metadata.txt"
    rows = []
    for i, (name, label, subset) in enumerate(zip(NAMES, LABELS, SUBSETS, strict=True)):
        codec = "alaw" if i % 2 else "none"
        attack = "bonafide" if label else f"A{i % 3:02d}"
        key = "bonafide" if label else "spoof"
        rows.append(f"LA_{i % 7:04d} {name} {codec} loc_tx {attack} {key} notrim {subset}\n")
    path.write_text("".join(rows))
    return path


def test_the_digits_of_the_official_packages(capsys, tmp_path):
    if not SHARED.is_dir():
        pytest.skip(
            "the published score files are not next to this checkout (shared/reference/scores)"
        )
    files = SHARED / "asvspoof2019_la_rawgat_mul.txt.gz", SHARED / "asvspoof2019_la_asv_eval.txt.gz"
    path = tmp_path / "out.json"
    words = ("--asv-scores", files[1], "--replicates", "0", "--json", path)
    status, out, err = run(capsys, files[0], *words)
    assert (status, err) == (0, "")
    (record,) = json.loads(path.read_text())
    assert f"{100 * record['eer']:.9f}" == "1.060134752"
    assert f"{record['min_dcf']:.9f}" == "0.029893113"
    assert f"{record['tandem']['tdcf_2019']:.9f}" == "0.033538947"
    assert f"{record['tandem']['tdcf_2021']:.9f}" == "0.094167831"
    expected = {
        "EER": "1.060", "minDCF": "0.0299", "actDCF": "0.0444", "Cllr": "0.0663",
        "min t-DCF 2019": "0.0335", "min t-DCF 2021": "0.0942",
        "ASV EER": "2.458", "ASV threshold": "-5.6801",
        "A07": "0.343", "A08": "0.530", "A09": "0.081", "A10": "0.390", "A11": "0.285",
        "A12": "0.343", "A13": "0.302", "A14": "0.285", "A15": "0.268", "A16": "0.815",
        "A17": "1.745", "A18": "3.090", "A19": "0.710",
    }  # fmt: skip
    assert {name: value(out, name) for name in expected} == expected
    rates = {condition["value"]: condition["eer"] for condition in record["conditions"]}
    assert [f"{100 * rates[name]:.4f}" for name in ("A07", "A16", "A18")] == [
        "0.3429", "0.8149", "3.0898",
    ]  # fmt: skip
    assert "71237: 7355 bona fide, 63882 spoof" in out


@pytest.mark.parametrize(
    ("bona_fide", "spoof", "rate", "threshold", "minimum", "actual", "llr_cost"), TABLE
)
def test_the_digits_of_small_examples(
    capsys, tmp_path, bona_fide, spoof, rate, threshold, minimum, actual, llr_cost
):
    path = tmp_path / "small.txt"
    lines = [f"b{i} 1 {score}\n" for i, score in enumerate(bona_fide)]
    path.write_text("".join(lines + [f"s{i} 0 {score}\n" for i, score in enumerate(spoof)]))
    status, out, _ = run(capsys, path, "--replicates", "0", "--json", tmp_path / "out.json")
    assert status == 0
    (record,) = json.loads((tmp_path / "out.json").read_text())
    names = ("eer_threshold", "min_dcf", "act_dcf", "cllr")
    values = [threshold, minimum, actual, llr_cost]
    assert [round(record[name], 10) for name in names] == values
    shown = [value(out, name) for name in ("EER threshold", "minDCF", "actDCF", "Cllr")]
    assert shown == [f"{record[name]:.4f}" for name in names]
    assert record["eer"] == pytest.approx(rate, abs=1e-12)
    assert value(out, "EER") == f"{100 * rate:.3f}"


def test_labels_and_conditions_of_the_protocol(capsys, tmp_path, scores, protocol):
    status, out, err = run(
        capsys, scores, "--protocol", protocol, "--subset", "eval", "--by", "attack,codec",
        "--json", tmp_path / "out.json", "--replicates", "50",
    )  # fmt: skip
    assert status == 0
    assert err == f"{scores}: 30 scored trials ignored, 60 evaluated\n"
    labels = np.array(LABELS[:60])
    expected = eer(VALUES[:60][labels == 1], VALUES[:60][labels == 0])[0]
    assert out.startswith("scores\n")
    assert value(out, "EER") == f"{100 * expected:.3f}"
    assert " over trials, " in out
    # Of so few speakers it says how many they are.
    assert re.search(r" over \d speakers only\n", out)
    (record,) = json.loads((tmp_path / "out.json").read_text())
    assert record["eer"] == expected
    assert [(row["column"], row["value"], row["against"]) for row in record["conditions"]] == [
        ("attack", "A01", "all"),
        ("attack", "A02", "all"),
        ("codec", "alaw", "same"),
        ("codec", "none", "same"),
    ]
    assert record["intervals_95"]["speakers"]["eer"]["low"] <= expected


def test_all_subsets_together_are_warned_of(capsys, scores, protocol):
    status, out, err = run(capsys, scores, "--protocol", protocol, "--replicates", "0")
    assert status == 0
    assert "90: 30 bona fide, 60 spoof" in out
    assert err.startswith(
        "warning: scores: these are 90 trials of all subsets (eval 60, progress 30)"
    )
    assert "--subset eval" in err


def test_scores_turned_round_are_warned_of(capsys, tmp_path):
    path = tmp_path / "s.txt.gz"
    lines = [
        f"a b {i} {label} {-score}\n"
        for i, (label, score) in enumerate(zip(LABELS, VALUES, strict=True))
    ]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    status, _, err = run(capsys, path, "--replicates", "0")
    assert status == 0
    assert err.startswith("warning: s: the scores look inverted")


def test_others_are_errors_unless_left_out(capsys, scores, protocol):
    with scores.open("a") as file:
        file.write("stranger 1\n")
    status, _, err = run(capsys, scores, "--protocol", protocol)
    assert status == 1
    assert "1 of 91 scored trials are not in the protocol: 'stranger'" in err
    status, out, err = run(
        capsys, scores, "--protocol", protocol, "--ignore-others", "--replicates", "0"
    )
    assert status == 0
    assert f"{scores}: 1 scored trials ignored, 90 evaluated\n" in err
    assert "90: 30 bona fide, 60 spoof" in out


def test_missing_trials_are_an_error(capsys, scores, protocol):
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:80]))
    status, _, err = run(capsys, scores, "--protocol", protocol)
    assert status == 1
    assert "10 of the 90 trials of the protocol have no score: 'E_080', 'E_081'" in err


def test_systems_side_by_side(capsys, tmp_path, scores, protocol):
    better = tmp_path / "better.txt"
    better.write_text(
        "".join(f"{n} {v + 3 * label}\n" for n, v, label in zip(NAMES, VALUES, LABELS, strict=True))
    )
    outputs = [tmp_path / name for name in ("t.csv", "t.tex")]
    status, out, _ = run(
        capsys, scores, better, "--protocol", protocol, "--subset", "eval",
        "--replicates", "200", "--csv", outputs[0], "--latex", outputs[1],
    )  # fmt: skip
    assert status == 0
    table = out[out.rindex("         EER %") :].splitlines()
    first, second = table[1].split(), table[2].split()
    assert (first[0], second[0]) == ("scores", "better")
    assert second[1].endswith("*")
    assert not first[1].endswith("*")
    assert float(second[1][:-1]) < float(first[1])
    assert len(outputs[0].read_text().splitlines()) == 1 + 2 * (1 + 2 + 1)
    assert r"\textbf{" in outputs[1].read_text()


def test_systems_of_different_trials_are_warned_of(capsys, tmp_path):
    for name, count in (("a", 30), ("b", 60)):
        rows = zip(NAMES[:count], LABELS, VALUES, strict=False)
        (tmp_path / name).write_text("".join(f"{n} {label} {score}\n" for n, label, score in rows))
    _, _, err = run(capsys, tmp_path / "a", tmp_path / "b", "--replicates", "0")
    assert (
        "warning: the systems were scored on different trials (bona fide + spoof: 10 + 20, 20 + 40)"
        in err
    )


def test_submission(capsys, tmp_path, scores, protocol):
    out = tmp_path / "submission.tsv"
    status, message, _ = run(
        capsys,
        scores,
        "--protocol",
        protocol,
        "--replicates",
        "0",
        "--submission",
        out,
        "--format",
        "asvspoof5",
    )
    assert status == 0
    assert f"written to {out}: 90 scores in the format asvspoof5" in message
    lines = out.read_text().splitlines()
    assert lines[0] == "filename\tcm-score"
    assert [line.split("\t")[0] for line in lines[1:]] == NAMES
    assert [float(line.split("\t")[1]) for line in lines[1:]] == VALUES.tolist()
    *_, err = run(
        capsys, scores, "--protocol", protocol, "--subset", "eval", "--replicates", "0",
        "--submission", out, "--format", "asvspoof2021",
    )  # fmt: skip
    assert f"warning: {out} contains only subset eval" in err
    *_, err = run(
        capsys, scores, "--protocol", protocol, "--subset", "eval", "--replicates", "0",
        "--submission", "-", "--format", "asvspoof2021",
    )  # fmt: skip
    assert "warning: standard output contains only subset eval, but the packages" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--subset", "eval"], "Give --protocol P too"),
        (["--ignore-others"], "Give --protocol P too"),
        (["--submission", "x"], "--submission and --format must be given together"),
        (["--format", "asvspoof5"], "--submission and --format must be given together"),
        (["--replicates", "3"], "--replicates 3: a 95 % interval needs at least 20"),
        (["--replicates", "-1"], "--replicates -1: a 95 % interval needs at least 20"),
        (["--by", "codec"], "no column codec. Columns: only attack without --protocol"),
        (
            ["--json", "x", "--csv", "x"],
            "an output has the same path as an input or another output",
        ),
    ],
)
def test_mistakes_in_the_options(capsys, tmp_path, monkeypatch, scores, options, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, scores, *options)
    assert (status, out) == (2, "")
    assert message in err
    assert not (tmp_path / "x").exists()


def test_a_column_that_gives_no_results_is_reported_if_it_was_requested(capsys, tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("a 1 1.5\nb 0 0.5\n")
    status, _, err = run(capsys, path, "--by", "attack", "--replicates", "0")
    assert status == 0
    assert err.startswith("warning: scores: no results by attack: no spoof has a known value of it")
    assert run(capsys, path, "--replicates", "0")[2] == ""


def test_names_that_differ_only_in_letter_case_are_said(capsys, tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("a.flac 1 1.5\nA.FLAC 1 1.5\nb 0 0.5\nc 0 0.1\n")
    err = run(capsys, path, "--replicates", "0")[2]
    assert "2 trials have names that differ only in letter case: 'a.flac', 'A.FLAC'" in err
    path.write_text("a.flac 1 1.5\nd.FLAC 1 1.5\nb 0 0.5\nc 0 0.1\n")
    assert "letter case" not in run(capsys, path, "--replicates", "0")[2]


def test_a_name_that_is_no_text(capsys, tmp_path):
    path, out = tmp_path / os.fsdecode(b"\xff.txt"), tmp_path / "out.json"
    path.write_text("a 1 1.5\nb 0 0.5\n")
    assert run(capsys, path, "--json", out, "--replicates", "0")[0] == 0
    assert json.loads(out.read_text())[0]["system"] == r"\udcff"


def test_outputs_are_written_where_nobody_reads_the_tables(tmp_path):
    path, out = tmp_path / "scores.txt", tmp_path / "out.json"
    path.write_text("a 1 1.5\nb 0 0.5\n")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "asdf", "evaluate", path, "--json", out, "--replicates", "0"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(out.read_text())[0]["eer"] == 0


def test_an_output_never_overwrites_the_scores(capsys, scores):
    before = scores.read_bytes()
    status, _, err = run(capsys, scores, "--json", scores)
    assert status == 2
    assert "and would overwrite it" in err
    assert scores.read_bytes() == before


def test_unknown_columns_and_subsets_name_those_there_are(capsys, scores, protocol):
    status, _, err = run(capsys, scores, "--protocol", protocol, "--by", "attack,codek")
    assert status == 2
    assert "no column codek. Columns: attack, speaker, codec" in err
    status, _, err = run(capsys, scores, "--protocol", protocol, "--subset", "evaluation")
    assert status == 2
    assert "eval, progress" in err


def test_without_labels_the_protocol_is_requested(capsys, scores):
    status, _, err = run(capsys, scores)
    assert status == 1
    assert "line 1: 'E_000" in err and "has no label" in err


def test_systems_have_the_names_of_the_arguments(capsys, tmp_path):
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "dev.txt").write_text("a 1 1.5\nb 0 0.5\n")
    files = [tmp_path / folder / "dev.txt" for folder in ("first", "second")]
    out = tmp_path / "out.json"
    words = [f"XLS-R + AASIST={files[0]}", files[1], "--replicates", "0", "--json", out]
    assert run(capsys, *words)[0] == 0
    assert [result["system"] for result in json.loads(out.read_text())] == ["XLS-R + AASIST", "dev"]
    assert run(capsys, *files, "--replicates", "0", "--json", out)[0] == 0
    assert [result["system"] for result in json.loads(out.read_text())] == ["first", "second"]
    status, _, err = run(capsys, f"a={files[0]}", f"a={files[1]}")
    assert status == 2
    assert "'a' is empty or names several systems" in err


def test_a_path_with_an_equals_sign_is_a_path(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr=1.txt").write_text("a 1 1.5\nb 0 0.5\n")
    status, out, _ = run(capsys, "lr=1.txt", "--replicates", "0")
    assert status == 0
    assert out.startswith("lr=1\n")
    status, _, err = run(capsys, "runs/lr=2/dev.txt")
    assert status == 1
    assert "cannot read runs/lr=2/dev.txt" in err


def test_the_scored_length_is_said_or_read_or_not_known(capsys, tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text("a 1 1.5\nb 0 0.5\n")
    assert "  scored         not known\n" in run(capsys, path, "--replicates", "0")[1]
    message = run(capsys, path, "--replicates", "0", "--scored-length", "66800")[1]
    assert "  scored         first 66,800 samples\n" in message
    write_how_scored(path, HowScored(PUBLISHED))
    assert "first 64,600 samples" in run(capsys, path, "--replicates", "0")[1]
    other = tmp_path / "other.txt"
    other.write_text("a 1 1.5\nb 0 0.5\n")
    write_how_scored(other, HowScored(WHOLE))
    *_, err = run(capsys, path, other, "--replicates", "0")
    assert "different lengths of the recordings (first 64,600 samples; whole), so their" in err
    assert run(capsys, path, "--scored-length", "long")[0] == 2


def test_the_precision_is_named_and_a_mixture_of_them_is_remarked(capsys, tmp_path):
    for name, precision in (("a", "bf16"), ("b", "fp32")):
        (tmp_path / name).write_text("a 1 1.5\nb 0 0.5\n")
        write_how_scored(tmp_path / name, HowScored(PUBLISHED, precision))
    out, err = run(capsys, tmp_path / "a", tmp_path / "b", "--replicates", "0")[1:]
    assert "  scored         first 64,600 samples, in bf16\n" in out
    assert "  scored         first 64,600 samples\n" in out
    mixed = "warning: the systems were scored in different precisions (bf16, fp32), which moves"
    assert mixed in err
    said = run(capsys, tmp_path / "a", "--scored-length", "whole", "--replicates", "0")[1]
    assert "  scored         whole, in bf16\n" in said


def test_no_system_is_the_best_of_different_lengths(capsys, tmp_path):
    rng = np.random.default_rng(4)
    for name, gap, scored in (("a", 1.0, PUBLISHED), ("b", 4.0, WHOLE)):
        rows = [f"u{i} {i % 2} {rng.normal() + gap * (i % 2)}\n" for i in range(200)]
        (tmp_path / name).write_text("".join(rows))
        write_how_scored(tmp_path / name, HowScored(scored))
    words = [tmp_path / "a", tmp_path / "b", "--replicates", "100"]
    assert "*" not in run(capsys, *words)[1]
    assert run(capsys, *words, "--scored-length", "whole")[1].count("*") == 3


def test_files_are_written_before_anything_is_printed(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this machine")
    path, out = tmp_path / "scores.txt", tmp_path / "out"
    path.write_text("a 1 1.5\nb 0 0.5\n")
    command = [sys.executable, "-m", "asdf", "evaluate", path, path, "--replicates", "0"]
    files = {name: tmp_path / f"out.{name}" for name in ("json", "csv", "latex")}
    for name, out in files.items():
        command += [f"--{name}", out]
    with open("/dev/full", "w") as full:
        subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert json.loads(files["json"].read_text())[1]["system"] == "scores #2"
    assert len(files["csv"].read_text().splitlines()) == 3
    assert files["latex"].read_text().count(r"\bottomrule") >= 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_scores_of_chance_are_not_called_turned_round(capsys, tmp_path, sign):
    rng = np.random.default_rng(3)
    rows = [f"u{i} {i % 2} {sign * rng.normal()}\n" for i in range(80)]
    (tmp_path / "s").write_text("".join(rows))
    assert "inverted" not in run(capsys, tmp_path / "s", "--replicates", "0")[2]


def test_a_small_gzip_file_that_holds_much_is_one_message(capsys, tmp_path):
    """Files that blow up are refused where lines are read, by every reader of scores."""
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"0" * 5_000_000))
    assert path.stat().st_size < 10_000
    for line in ([], ["--protocol", str(path)]):
        assert main(["evaluate", str(path), *line]) == 1
        err = capsys.readouterr().err
        assert "bomb.txt.gz, line 1" in err
        assert len(err) < 500


@pytest.mark.parametrize("option", ["--asv-scores", "--protocol"])
def test_endless_files_are_one_message(capsys, scores, option):
    if not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero on this machine")
    status, _, err = run(capsys, scores, option, "/dev/zero")
    assert status == 1
    assert "/dev/zero, line 1" in err


@pytest.fixture
def llrs(tmp_path):
    rows = zip(NAMES, LABELS, VALUES, strict=True)
    path = tmp_path / "llrs.txt"
    path.write_text("".join(f"{name}.wav {label} {value - 1:.3f}\n" for name, label, value in rows))
    return path


def test_likelihood_ratios_are_drawn_with_a_line_on_their_quality(capsys, llrs, tmp_path):
    kinds = ("tippett", "ece", "reliability")
    outputs = [tmp_path / f"ratios.of-{kind}.svg" for kind in kinds]
    words = ["--ratios", tmp_path / "ratios.of.svg"]
    status, out, err = run(capsys, llrs, "--replicates", "0", *words)
    assert status == 0
    assert all(path.stat().st_size > 1000 for path in outputs)
    assert "Tippett plot" in out and "by discrimination and" in out
    assert "not calibrated log-likelihood ratios" not in err
    before = [path.read_bytes() for path in outputs]
    run(capsys, llrs, "--replicates", "0", *words)
    assert [path.read_bytes() for path in outputs] == before


def test_scores_that_are_no_ratios_get_a_warning(capsys, tmp_path):
    rows = zip(NAMES, LABELS, VALUES, strict=True)
    path = tmp_path / "s.txt"
    path.write_text("".join(f"{name}.wav {label} {20 + value}\n" for name, label, value in rows))
    words = [path, "--replicates", "0", "--ratios", tmp_path / "e.svg"]
    assert "not calibrated log-likelihood ratios" in run(capsys, *words)[2]


def test_decisions_have_no_plots_of_ratios(capsys, llrs, tmp_path):
    status, _, err = run(capsys, llrs, "--decisions", "--ratios", tmp_path / "t.svg")
    assert status == 2 and "plots need scores" in err


def test_a_calibrated_network_makes_ratios_of_its_scores(capsys, llrs, tmp_path):
    calibration = Calibration(2.0, 1.0, 0.0, lowest_llr=-3.0, highest_llr=2.5)
    network = write_small_network(tmp_path / "net.pt", calibration=calibration.content())
    out = tmp_path / "out.json"
    words = [llrs, "--calibration", network, "--replicates", "0", "--json", out]
    status, _, err = run(capsys, *words)
    assert status == 0
    mapped = 2 * np.array([round(value - 1, 3) for value in VALUES]) + 1
    values = np.clip(mapped, -3, 2.5)
    bounded = int((values != mapped).sum())
    assert 0 < bounded < len(VALUES)
    assert f"{bounded} of {len(VALUES)} likelihood ratios are limited to the range" in err
    labels = np.array(LABELS)
    expected = cllr(values[labels == 1], values[labels == 0])
    [system] = json.loads(out.read_text())
    assert system["cllr"] == pytest.approx(expected, abs=1e-12)

    write_how_scored(llrs, HowScored(WHOLE, network="0" * 64, trials=len(NAMES)))
    status, _, err = run(capsys, *words)
    assert status == 1 and "are from another network than" in err


def test_a_threshold_of_scores_decides_the_same_of_their_ratios(capsys, llrs, tmp_path):
    calibration = Calibration(2.0, 1.0, 0.5, lowest_llr=-3.0, highest_llr=2.5)
    network = write_small_network(tmp_path / "net.pt", calibration=calibration.content())
    out = tmp_path / "out.json"
    words = [llrs, "--calibration", network, "--replicates", "0", "--json", out]
    # An LLR of 0.5 is a score of -0.25.
    values = np.array([round(value - 1, 3) for value in VALUES])
    correct = np.mean((values >= -0.25) == np.array(LABELS))
    assert correct != np.mean((2 * values + 1 >= -0.25) == np.array(LABELS))
    for named in (["--threshold-of", network], ["--threshold", "0.5"]):
        assert run(capsys, *words, *named)[0] == 0
        [system] = json.loads(out.read_text())
        decisions = system["decisions"]
        assert decisions["threshold"] == pytest.approx(0.5, abs=1e-9)
        assert decisions["accuracy"] == pytest.approx(correct, abs=1e-12)
    # A threshold of the scores' own EER is mapped as they are.
    assert run(capsys, *words, "--threshold-from", llrs)[0] == 0
    [system] = json.loads(out.read_text())
    assert run(capsys, llrs, "--replicates", "0", "--threshold-from", llrs, "--json", out)[0] == 0
    [of_scores] = json.loads(out.read_text())
    expected = 2 * of_scores["decisions"]["threshold"] + 1
    assert system["decisions"]["threshold"] == pytest.approx(expected, abs=1e-9)
    assert system["decisions"]["accuracy"] == of_scores["decisions"]["accuracy"]


def test_a_network_without_calibration_makes_no_ratios(capsys, llrs, tmp_path):
    network = write_small_network(tmp_path / "net.pt")
    status, _, err = run(capsys, llrs, "--calibration", network)
    assert status == 2 and "is not calibrated. Calibrate it first: python -m asdf calibrate" in err
