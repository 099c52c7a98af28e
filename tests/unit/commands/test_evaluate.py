"""`python -m asdf evaluate`: its JSON has the official packages' digits, and reports mistakes."""

import gzip
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from asdf.evaluation import cllr, eer
from asdf.metrics.calibration import Calibration
from asdf.trials.how_scored import PUBLISHED, WHOLE, HowScored
from asdf.trials.scored_files import write_how_scored
from tests.unit.commands.running import Runner, value
from tests.unit.conftest import write_small_network

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "scores"
RNG = np.random.default_rng(2)
COUNT = 90
NAMES = [f"E_{i:03d}" for i in range(COUNT)]
LABELS = [int(i % 3 == 0) for i in range(COUNT)]
VALUES = (RNG.normal(0, 1, COUNT) + 2 * np.array(LABELS)).round(3)
SUBSETS = ["eval" if i < 60 else "progress" for i in range(COUNT)]


PAIR = "a 1 1.5\nb 0 0.5\n"


def labelled(values, count: int = COUNT) -> str:
    """Return labelled scores of the first trials."""
    rows = zip(NAMES[:count], LABELS, values, strict=False)
    return "".join(f"{name}.wav {label} {value}\n" for name, label, value in rows)


class Evaluate(Runner):
    """The command without a bootstrap, if its words do not ask for one."""

    def __call__(self, capsys, *words):
        more = [] if "--replicates" in words else ["--replicates", "0"]
        return super().__call__(capsys, *words, *more)


run = Evaluate("evaluate")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Scores without labels, and a protocol in the format of ASVspoof 2021 LA."""
    monkeypatch.chdir(tmp_path)
    pairs = zip(NAMES, VALUES, strict=True)
    (tmp_path / "scores.txt").write_text("".join(f"{name} {score}\n" for name, score in pairs))
    (tmp_path / "pair.txt").write_text(PAIR)
    rows = []
    for i, (name, label, subset) in enumerate(zip(NAMES, LABELS, SUBSETS, strict=True)):
        codec = "alaw" if i % 2 else "none"
        attack = "bonafide" if label else f"A{i % 3:02d}"
        key = "bonafide" if label else "spoof"
        rows.append(f"LA_{i % 7:04d} {name} {codec} loc_tx {attack} {key} notrim {subset}\n")
    (tmp_path / "keys.txt").write_text("".join(rows))
    return tmp_path


PROTOCOL = ("scores.txt", "--protocol", "keys.txt")
OF_EVAL = (*PROTOCOL, "--subset", "eval")


def test_the_digits_of_the_official_packages(capsys, tmp_path):
    if not SHARED.is_dir():
        pytest.skip(
            "the published score files are not next to this checkout (shared/reference/scores)"
        )
    files = SHARED / "asvspoof2019_la_rawgat_mul.txt.gz", SHARED / "asvspoof2019_la_asv_eval.txt.gz"
    path = tmp_path / "out.json"
    words = ("--asv-scores", files[1], "--json", path)
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
        "ASV EER": "2.458", "ASV threshold": "-5.6801", "A07": "0.343", "A18": "3.090",
    }  # fmt: skip
    assert {name: value(out, name) for name in expected} == expected
    assert (f"{record['act_dcf']:.6f}", f"{record['cllr']:.6f}") == ("0.044395", "0.066252")
    rates = {each["value"]: f"{100 * each['eer']:.4f}" for each in record["conditions"]}
    assert list(rates) == [f"A{number:02d}" for number in range(7, 20)]
    digits = "0.3429 0.5297 0.0815 0.3905 0.2852 0.3429 0.3022 0.2852 0.2682 0.8149 1.7452 3.0898"
    assert " ".join(rates.values()) == f"{digits} 0.7096"
    assert "71237: 7355 bona fide, 63882 spoof" in out


def _normal() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    return rng.normal(1.5, 1, 1000), rng.normal(-1.5, 1, 9000)


# What came out of the official packages, to the last digit that is known.
TABLE = [
    ([2, 1, 0.5, -0.2], [-1, -2, 0.1, 0.6, -3], 0.225, 0.1, 0.4, 0.4, 0.6363971065),
    ([0, 0, 0], [0, 0, 0], 1, 0, 1, 1, 1),
    ([1, 1, 0, 2], [0, 0, 1, -1], 0.25, 0, 0.725, 0.75, 0.8041972232),
    ([3, 4, 5], [-3, -4, -5], 0, -3, 0, 0, 0.0353232474),
    ([-3, -4, -5], [3, 4, 5], 1, -3, 1, 2.9, 5.8061034109),
    (*_normal(), 0.068, -0.0331548295, 0.1720333333, 0.2214222222, 0.4006625907),
]


@pytest.mark.parametrize(
    ("bona_fide", "spoof", "rate", "threshold", "minimum", "actual", "llr_cost"), TABLE
)
def test_the_digits_of_small_examples(
    capsys, tmp_path, bona_fide, spoof, rate, threshold, minimum, actual, llr_cost
):
    path = tmp_path / "small.txt"
    lines = [f"b{i} 1 {score}\n" for i, score in enumerate(bona_fide)]
    lines += [f"s{i} 0 {score}\n" for i, score in enumerate(spoof)]
    # The classes are told by their labels, whatever the order.
    path.write_text("".join(lines[::2] + lines[1::2]))
    out = run.ok(capsys, path, "--json", tmp_path / "out.json")
    (record,) = json.loads((tmp_path / "out.json").read_text())
    names = ("eer_threshold", "min_dcf", "act_dcf", "cllr")
    values = [threshold, minimum, actual, llr_cost]
    assert [round(record[name], 10) for name in names] == values
    shown = [value(out, name) for name in ("EER threshold", "minDCF", "actDCF", "Cllr")]
    assert shown == [f"{record[name]:.4f}" for name in names]
    assert record["eer"] == pytest.approx(rate, abs=1e-12)
    assert value(out, "EER") == f"{100 * rate:.3f}"


def test_labels_and_conditions_of_the_protocol(capsys, folder):
    words = [*OF_EVAL, "--by", "attack,codec", "--json", "out.json", "--replicates", "50"]
    status, out, err = run(capsys, *words)
    assert status == 0
    assert err == "scores.txt: 30 scored trials ignored, 60 evaluated\n"
    labels = np.array(LABELS[:60])
    expected = eer(VALUES[:60][labels == 1], VALUES[:60][labels == 0])[0]
    assert out.startswith("scores\n")
    assert value(out, "EER") == f"{100 * expected:.3f}"
    assert " over trials, " in out
    # Of so few speakers it says how many they are.
    assert re.search(r" over \d speakers only\n", out)
    (record,) = json.loads(Path("out.json").read_text())
    assert record["eer"] == expected
    assert [(row["column"], row["value"], row["against"]) for row in record["conditions"]] == [
        ("attack", "A01", "all"),
        ("attack", "A02", "all"),
        ("codec", "alaw", "same"),
        ("codec", "none", "same"),
    ]
    assert record["intervals_95"]["speakers"]["eer"]["low"] <= expected


REMARKS = [
    (labelled(-VALUES), [], "warning: file: the scores look inverted"),
    (PAIR, ["--by", "attack"], "warning: file: no results by attack: no spoof has a known value"),
    ("a.flac 1 2\nA.FLAC 1 2\nb 0 1\n", [], "differ only in letter case: 'a.flac', 'A.FLAC'"),
    (labelled(20 + VALUES), ["--ratios", "e.svg"], "not calibrated log-likelihood ratios"),
]


@pytest.mark.parametrize(("content", "options", "remark"), REMARKS)
def test_what_looks_wrong_is_remarked(capsys, folder, content, options, remark):
    path = Path("file.txt.gz")
    path.write_bytes(gzip.compress(content.encode()))
    status, _, err = run(capsys, path, *options)
    assert status == 0 and remark in err


def test_what_is_right_is_not_remarked(capsys, folder):
    chance = np.random.default_rng(3).normal(size=COUNT)
    distinct = "a.flac 1 2\nd.FLAC 1 2\nb 0 1\n"
    for content in (PAIR, labelled(chance), labelled(-chance), distinct):
        Path("file.txt").write_text(content)
        status, _, err = run(capsys, "file.txt")
        assert status == 0 and "inverted" not in err and "letter case" not in err


def test_others_are_errors_unless_left_out(capsys, folder):
    with open("scores.txt", "a") as file:
        file.write("stranger 1\n")
    run.refused(capsys, 1, "1 of 91 scored trials are not in the protocol: 'stranger'", *PROTOCOL)
    status, out, err = run(capsys, *PROTOCOL, "--ignore-others")
    assert status == 0 and "scores.txt: 1 scored trials ignored, 90 evaluated\n" in err
    assert "90: 30 bona fide, 60 spoof" in out
    # Trials of all subsets are warned of.
    subsets = "warning: scores: these are 90 trials of all subsets (eval 60, progress 30)"
    assert subsets in err and "--subset eval" in err


def test_systems_side_by_side(capsys, folder):
    rows = zip(NAMES, VALUES, LABELS, strict=True)
    Path("better.txt").write_text("".join(f"{n} {v + 3 * label}\n" for n, v, label in rows))
    words = ["--csv", "t.csv", "--latex", "t.tex", "--replicates", "200"]
    out = run.ok(capsys, *OF_EVAL, *words, "better.txt")
    table = out[out.rindex("         EER %") :].splitlines()
    first, second = table[1].split(), table[2].split()
    assert (first[0], second[0]) == ("scores", "better")
    assert second[1].endswith("*") and not first[1].endswith("*")
    assert float(second[1][:-1]) < float(first[1])
    assert len(Path("t.csv").read_text().splitlines()) == 1 + 2 * (1 + 2 + 1)
    assert r"\textbf{" in Path("t.tex").read_text()


def test_systems_of_different_trials_are_warned_of(capsys, tmp_path):
    files = [tmp_path / name for name in "ab"]
    for path, count in zip(files, (30, 60), strict=True):
        path.write_text(labelled(VALUES, count))
    sizes = "different trials (bona fide + spoof: 10 + 20, 20 + 40)"
    assert f"warning: the systems were scored on {sizes}" in run(capsys, *files)[2]
    # As many trials, and others.
    files[1].write_text(labelled(VALUES, 30).replace("E_", "V_"))
    sizes = "different trials (bona fide + spoof: 10 + 20)"
    assert f"warning: the systems were scored on {sizes}" in run(capsys, *files)[2]
    # The same ones, in another order and with folders.
    lines = labelled(VALUES, 30).splitlines(keepends=True)
    files[1].write_text("".join(f"flac/{line}" for line in reversed(lines)))
    assert "different trials" not in run(capsys, *files)[2]


def test_submission(capsys, folder):
    words = ["--submission", "out.tsv", "--format", "asvspoof5"]
    status, message, _ = run(capsys, *PROTOCOL, *words)
    assert status == 0
    assert "written to out.tsv: 90 scores in the format asvspoof5" in message
    head, *lines = Path("out.tsv").read_text().splitlines()
    assert head == "filename\tcm-score"
    assert [line.split("\t")[0] for line in lines] == NAMES
    assert [float(line.split("\t")[1]) for line in lines] == VALUES.tolist()
    for out, name in (("out.tsv", "out.tsv"), ("-", "standard output")):
        words = ["--submission", out, "--format", "asvspoof2021"]
        err = run(capsys, *OF_EVAL, *words)[2]
        assert f"warning: {name} has only subset eval, but the packages" in err


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["pair.txt", "--subset", "eval"], 2, "Give --protocol P too"),
        (["pair.txt", "--ignore-others"], 2, "Give --protocol P too"),
        (["pair.txt", "--submission", "x"], 2, "--submission and --format go together"),
        (["pair.txt", "--format", "asvspoof5"], 2, "--submission and --format go together"),
        (["pair.txt", "--replicates", "3"], 2, "3: a 95 % interval needs at least 20"),
        (["pair.txt", "--replicates", "-1"], 2, "-1: a 95 % interval needs at least 20"),
        (["pair.txt", "--by", "codec"], 2, "no column codec; only attack without"),
        (["pair.txt", "--json", "x", "--csv", "x"], 2, "same path as an input or another output"),
        (["pair.txt", "--json", "pair.txt"], 2, "and would overwrite it"),
        (["pair.txt", "--scored-length", "long"], 2, "long"),
        (["pair.txt", "--decisions", "--ratios", "t.svg"], 2, "plots need scores"),
        (["pair.txt", "--ratios", "."], 2, "plots are written as pdf, png, svg"),
        (["pair.txt", "--plot", "det.doc"], 2, "plots are written as pdf, png, svg"),
        (["pair.txt", "--threshold-by", "eer"], 2, "describe the set of --threshold-from"),
        (["pair.txt", "--threshold", "nan"], 2, "finite"),
        (["scores.txt", "--decisions"], 2, "have no labels"),
        ([*PROTOCOL, "--by", "attack,codek"], 2, "no column codek; columns: attack, speaker"),
        ([*PROTOCOL, "--subset", "evaluation"], 2, "eval, progress"),
        (["a=pair.txt", "a=scores.txt"], 2, "'a' is empty or names several systems"),
        (["scores.txt"], 1, "has no label"),
        (["cut.txt", *PROTOCOL[1:]], 1, "10 of the 90 trials of the protocol have no score: "),
        (["runs/lr=2/dev.txt"], 1, "cannot read runs/lr=2/dev.txt"),
        # Files that blow up are refused where lines are read, by every reader of scores.
        (["bomb.txt.gz"], 1, "bomb.txt.gz, line 1"),
        (["pair.txt", "--protocol", "bomb.txt.gz"], 1, "bomb.txt.gz, line 1"),
        (["pair.txt", "--asv-scores", "/dev/zero"], 1, "/dev/zero, line 1"),
        (["pair.txt", "--protocol", "/dev/zero"], 1, "/dev/zero, line 1"),
    ],
)
def test_mistakes_are_one_message(capsys, folder, words, status, message):
    if "/dev/zero" in words and not Path("/dev/zero").exists():
        pytest.skip("no /dev/zero on this machine")
    lines = Path("scores.txt").read_text().splitlines(keepends=True)
    Path("cut.txt").write_text("".join(lines[:80]))
    Path("bomb.txt.gz").write_bytes(gzip.compress(b"0" * 5_000_000))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ended, out, err = run(capsys, *words)
    assert (ended, out) == (status, "")
    assert message in err and len(err) < 500
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_systems_have_the_names_of_the_arguments(capsys, folder):
    for name in ("first", "second"):
        Path(name).mkdir()
        Path(name, "dev.txt").write_text(PAIR)
    Path("lr=1.txt").write_text(PAIR)
    Path(os.fsdecode(b"\xff.txt")).write_text(PAIR)
    for words, names in (
        (["XLS-R + AASIST=first/dev.txt", "second/dev.txt"], ["XLS-R + AASIST", "dev"]),
        (["first/dev.txt", "second/dev.txt"], ["first", "second"]),
        (["lr=1.txt"], ["lr=1"]),
        ([os.fsdecode(b"\xff.txt")], [r"\udcff"]),
    ):
        assert run(capsys, *words, "--json", "out.json")[0] == 0
        assert [system["system"] for system in json.loads(Path("out.json").read_text())] == names


def test_the_scored_length_and_precision_are_said_or_read_or_not_known(capsys, folder):
    def shown(*words: str) -> str:
        return re.search("  scored         (.*)\n", run(capsys, *words)[1])[1]

    assert shown("pair.txt") == "not known"
    assert shown("pair.txt", "--scored-length", "66800") == "first 66,800 samples"
    for name, scored in (
        ("published", HowScored(PUBLISHED)),
        ("whole", HowScored(WHOLE)),
        ("half", HowScored(PUBLISHED, "bf16")),
    ):
        Path(name).write_text(PAIR)
        write_how_scored(Path(name), scored)
    assert shown("published") == "first 64,600 samples"
    assert shown("half") == "first 64,600 samples, in bf16"
    assert shown("half", "--scored-length", "whole") == "whole, in bf16"
    lengths = "different lengths of the recordings (first 64,600 samples; whole), so their"
    assert lengths in run(capsys, "published", "whole")[2]
    precisions = "warning: the systems were scored in different precisions (bf16, fp32)"
    write_how_scored(Path("published"), HowScored(PUBLISHED, "fp32"))
    assert precisions in run(capsys, "half", "published")[2]


def test_no_system_is_the_best_of_different_lengths(capsys, tmp_path):
    rng = np.random.default_rng(4)
    for name, gap, scored in (("a", 1.0, PUBLISHED), ("b", 4.0, WHOLE)):
        rows = [f"u{i} {i % 2} {rng.normal() + gap * (i % 2)}\n" for i in range(200)]
        (tmp_path / name).write_text("".join(rows))
        write_how_scored(tmp_path / name, HowScored(scored))
    words = [tmp_path / "a", tmp_path / "b", "--replicates", "100"]
    assert "*" not in run(capsys, *words)[1]
    assert run(capsys, *words, "--scored-length", "whole")[1].count("*") == 3


def test_files_are_written_where_nobody_reads_the_tables(warm, folder):
    outputs = ["--json", "out.json", "--csv", "out.csv", "--latex", "out.tex"]
    command = [warm(), "-m", "asdf", "evaluate", "pair.txt", "pair.txt", *outputs]
    read, write = os.pipe()
    os.close(read)
    sinks = [(write, 0)]
    if Path("/dev/full").exists():
        sinks.append((os.open("/dev/full", os.O_WRONLY), None))
    for sink, status in sinks:
        done = subprocess.run(
            [*command, "--replicates", "0"], stdout=sink, stderr=subprocess.PIPE, text=True
        )
        os.close(sink)
        if status is not None:
            assert (done.returncode, done.stderr) == (status, "")
        assert json.loads(Path("out.json").read_text())[1]["system"] == "pair #2"
        assert len(Path("out.csv").read_text().splitlines()) == 3
        assert Path("out.tex").read_text().count(r"\bottomrule") >= 1
        for name in ("out.json", "out.csv", "out.tex"):
            Path(name).unlink()


@pytest.fixture
def llrs(tmp_path):
    path = tmp_path / "llrs.txt"
    path.write_text(labelled([f"{value - 1:.3f}" for value in VALUES]))
    return path


def test_likelihood_ratios_are_drawn_with_a_line_on_their_quality(capsys, llrs, tmp_path):
    kinds = ("tippett", "ece", "reliability")
    outputs = [tmp_path / f"ratios.of-{kind}.svg" for kind in kinds]
    words = ["--ratios", tmp_path / "ratios.of.svg"]
    status, out, err = run(capsys, llrs, *words)
    assert status == 0
    assert all(path.stat().st_size > 1000 for path in outputs)
    assert "Tippett plot" in out and "by discrimination and" in out
    assert "not calibrated log-likelihood ratios" not in err
    before = [path.read_bytes() for path in outputs]
    run(capsys, llrs, *words)
    assert [path.read_bytes() for path in outputs] == before


def test_a_calibrated_network_makes_ratios_of_its_scores(capsys, llrs, tmp_path):
    calibration = Calibration(2.0, 1.0, 0.0, lowest_llr=-3.0, highest_llr=2.5)
    network = write_small_network(tmp_path / "net.pt", calibration=calibration.content())
    out = tmp_path / "out.json"
    words = [llrs, "--calibration", network, "--json", out]
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
    run.refused(capsys, 1, "are from another network than", *words)
    write_small_network(network)
    run.refused(capsys, 2, "is not calibrated: python -m asdf calibrate", *words)


def test_a_threshold_of_scores_decides_the_same_of_their_ratios(capsys, llrs, tmp_path):
    calibration = Calibration(2.0, 1.0, 0.5, lowest_llr=-3.0, highest_llr=2.5)
    network = write_small_network(tmp_path / "net.pt", calibration=calibration.content())
    out = tmp_path / "out.json"
    words = [llrs, "--calibration", network, "--json", out]
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
    assert run(capsys, llrs, "--threshold-from", llrs, "--json", out)[0] == 0
    [of_scores] = json.loads(out.read_text())
    expected = 2 * of_scores["decisions"]["threshold"] + 1
    assert system["decisions"]["threshold"] == pytest.approx(expected, abs=1e-9)
    assert system["decisions"]["accuracy"] == of_scores["decisions"]["accuracy"]
