"""`python -m asdf calibrate`: the network file afterwards, and what is said."""

import json
import math
import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.evaluation import DetectionCost, cllr, eer, read_scores, write_scores
from asdf.extras.forensic import support
from asdf.extras.forensic.calibrating.learning import chose_network
from asdf.interchange import network_digest
from asdf.metrics.calibration import Calibration, calibrate
from asdf.scoring.columns import Ratio
from asdf.scoring.scored import Score, decide_verdict
from asdf.scoring.whole_recording import Tally, Window
from asdf.tasks.fusion.gain import make_folds
from asdf.trials.scored_files import read_how_scored, write_how_scored
from tests.unit.commands.running import Runner
from tests.unit.conftest import sound, write_small_network

run = Runner("calibrate")

RNG = np.random.default_rng(5)
LABELS = np.repeat([1, 0], [60, 140])
BONA_FIDE, SPOOF = RNG.normal(1, 2, 60), RNG.normal(-4, 2, 140)
BOTH = np.concatenate([BONA_FIDE, SPOOF])


@pytest.fixture
def network(tmp_path):
    return write_small_network(tmp_path / "network.pt", progress={"epochs": 3})


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.txt"
    write_scores(path, [f"{i}.wav" for i in range(200)], LABELS, BOTH)
    return path


def calibration_of(network):
    return asdf.Detector(network, "cpu").calibration


def decides_as(calibration, other):
    """Whether two calibrations have one map, one threshold and the same costs."""
    names = ("map", "threshold", "spoof_prior", "miss", "false_alarm")
    return all(getattr(calibration, name) == getattr(other, name) for name in names)


def test_a_folder_is_calibrated_in_one_step(capsys, caplog, network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    genuine, spoofed = "test/human", "test/tts"
    detector = asdf.Detector(network, "cpu")
    waveforms = [sound(20000, seed) for seed in range(24)]
    order = np.argsort([detector.score_trial(each, 16000) for each in waveforms])
    for position, index in enumerate(order.tolist()):
        # Two of each class score like the other.
        is_genuine = (position >= 12) != (position in (5, 10, 13, 18))
        folder = tmp_path / "mine" / (genuine if is_genuine else spoofed)
        folder.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / f"{position}.wav", waveforms[index], 16000, subtype="FLOAT")
    (tmp_path / "mine" / "notes").mkdir()
    soundfile.write(tmp_path / "mine" / "notes" / "memo.wav", waveforms[0], 16000)
    status, out, err = run(capsys, network, "mine", "--output", "out/new.pt")
    assert status == 0, err
    assert out.startswith("out/mine.scores: 12 bona fide, 12 spoof")
    # The lines of recordings are not shown, nor is what they say counted.
    assert "remarks in the lines" not in err
    assert "left out: 1, such as notes/memo.wav" in caplog.text
    calibration = calibration_of("out/new.pt")
    assert (calibration.set, calibration.bona_fide, calibration.spoof) == ("mine", 12, 12)
    scores = read_scores(tmp_path / "out" / "mine.scores")
    of_class = [scores.scores[scores.labels == label] for label in (1, 0)]
    assert eer(*of_class)[0] == pytest.approx(1 / 6)
    for name, label, score in zip(scores.ids, scores.labels, scores.scores, strict=True):
        assert score == pytest.approx(float(detector.score_trial(name)), abs=1e-6)
        assert label == int(name.startswith(f"mine/{genuine}/"))
    # And what was scored into a table is evaluated by the folder.
    assert main(["score", str(network), "mine", "--csv", "table.csv"]) == 0
    of_protocol = ["--protocol", "mine", "--ignore-others"]
    assert main(["evaluate", "table.csv", *of_protocol, "--json", "e.json"]) == 0
    assert main(["evaluate", "out/mine.scores", "--json", "s.json"]) == 0
    for name in ("e.json", "s.json"):
        assert json.loads(Path(name).read_text())[0]["eer"] == pytest.approx(1 / 6)


def test_a_folder_that_names_no_class_is_refused(capsys, network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("calls/one", "calls/two", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    soundfile.write("calls/one/a.wav", sound(9000), 16000)
    before = network.read_bytes()
    for folder, words in (("calls", "no folder name says which"), ("empty", "no recordings found")):
        status, _, err = run(capsys, network, folder)
        assert status != 0 and words in err
    assert network.read_bytes() == before and not list(tmp_path.glob("*.scores"))


def test_the_threshold_is_that_of_the_eer(capsys, tmp_path, scores):
    """A calibration that the network has already is replaced."""
    first = Calibration(7.0, 7.0, 7.0).content()
    network = write_small_network(tmp_path / "c.pt", progress={"epochs": 3}, calibration=first)
    before = torch.load(network, weights_only=True)
    assert before.pop("calibration") == first
    out = run.ok(capsys, network, scores)
    calibration = calibration_of(network)
    assert decides_as(calibration, calibrate(BONA_FIDE, SPOOF))
    assert calibration.method == "logistic"
    assert calibration.spoof_prior is None
    after = torch.load(network, weights_only=True)
    assert after.pop("calibration") == calibration.content()
    assert (calibration.set, calibration.bona_fide, calibration.spoof) == ("scores", 60, 140)
    assert after.keys() == before.keys()
    assert after["progress"] == {"epochs": 3}
    for name, tensor in before["model_state_dict"].items():
        assert torch.equal(after["model_state_dict"][name], tensor)
    raised = cllr(BONA_FIDE, SPOOF)
    lowered = cllr(calibration.unbounded_llr(BONA_FIDE), calibration.unbounded_llr(SPOOF))
    held_out = calibration.cross_validated_cllr
    assert lowered < held_out < raised
    said = f"Cllr {raised:.4f} bits before, {held_out:.4f} after, cross-validated by trials, becau"
    assert said in out
    assert f"{lowered:.4f} on the trials that the map was fitted to" in out
    assert "60 bona fide, 140 spoof" in out


def test_labels_may_come_from_a_protocol(capsys, tmp_path, network, scores):
    """Scores without labels are read as `evaluate` reads them, those of other trials left out."""
    lines = [line.split() for line in scores.read_text().splitlines()]
    protocol = tmp_path / "protocol.txt"
    keys = {"1": "bonafide", "0": "spoof"}
    protocol.write_text("".join(f"{name} {keys[label]}\n" for name, label, _ in lines))
    unlabelled = tmp_path / "two_columns.txt"
    unlabelled.write_text("".join(f"{name} {score}\n" for name, _, score in lines) + "other 9\n")
    status, _, errors = run(capsys, network, unlabelled)
    assert status == 1 and "line 1: '0.wav" in errors and "has no label" in errors
    options = ("--protocol", protocol)
    said = "1 of 201 scored trials are not in the protocol: 'other'"
    run.refused(capsys, 1, said, network, unlabelled, *options)
    status, out, errors = run(capsys, network, unlabelled, *options, "--ignore-others")
    assert status == 0 and "1 scored trials ignored" in errors
    assert "60 bona fide, 140 spoof" in out
    assert decides_as(calibration_of(network), calibrate(BONA_FIDE, SPOOF))


def test_costs_give_their_bayes_threshold(capsys, tmp_path, network, scores):
    content = network.read_bytes()
    out = tmp_path / "more" / "calibrated.pt"
    run.ok(capsys, network, scores, "--out", out, "--costs", "p_spoof=0.1,cost_miss=2")
    assert network.read_bytes() == content
    calibration = calibration_of(out)
    cost = DetectionCost(spoof_prior=0.1, miss=2, false_alarm=10)
    assert decides_as(calibration, calibrate(BONA_FIDE, SPOOF, cost))
    assert calibration.threshold == pytest.approx(math.log(0.1 * 10 / (0.9 * 2)))


def test_scores_without_an_error_are_reported(capsys, tmp_path, network):
    write_scores(tmp_path / "s.txt", ["a", "b", "c"], [1, 1, 0], [1.0, 2.0, -1.0])
    _, out, _ = run(capsys, network, tmp_path / "s.txt")
    assert "More trials would give a better estimate" in out


def test_scores_of_another_network_are_warned_of(capsys, tmp_path, scores):
    paths = [tmp_path / "networks" / f"epoch.{number}.pt" for number in (1, 2)]
    networks = [write_small_network(path) for path in paths]
    theirs = tmp_path / "scores" / "epoch.2" / "dev.txt"
    theirs.parent.mkdir(parents=True)
    scores.rename(theirs)
    errors = run(capsys, networks[0], theirs)[2]
    assert "suggests that they are from epoch.2.pt, not epoch.1.pt" in errors
    errors = run(capsys, networks[1], theirs)[2]
    assert "could not check" in errors and "likely made" not in errors


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--costs", "p_spoof=1"), 2, "--costs p_spoof=1: the prior must lie between 0 and 1"),
        (("--costs", "cost_fa=-1"), 2, "and costs above 0"),
        (("--costs", "cost_fa=nan"), 2, "and costs above 0"),
        (("--costs", "prior=.1"), 2, "Names: p_spoof, cost_miss, cost_fa, asvspoof2019"),
        (("--prior", ".1"), 2, "calibrate --prior has left ASDF. Give --costs p_spoof=X,"),
    ],
)
def test_mistakes(capsys, network, scores, options, status, message):
    content = network.read_bytes()
    result, _, errors = run(capsys, network, scores, *options)
    assert result == status
    assert message in errors
    assert network.read_bytes() == content


def test_scores_and_networks_that_cannot_be_used(capsys, tmp_path, network, scores):
    turned = tmp_path / "turned.txt"
    write_scores(turned, ["a", "b", "c"], [0, 0, 1], [1.0, 2.0, 0.0])
    assert "turned.txt: higher scores do not mean bona fide" in run(capsys, network, turned)[2]
    torch.save({"model_state_dict": {"a": torch.zeros(1)}}, tmp_path / "weights.pt")
    run.refused(capsys, 1, "python -m asdf import", tmp_path / "weights.pt", scores)
    assert run(capsys, tmp_path / "missing.pt", scores)[0] == 2
    assert run(capsys, network, tmp_path / "missing.txt")[0] == 1


def held_out_cllr(values, labels, folds, llr_of, method="logistic"):
    """Return the Cllr of values by maps of the other folds, written out."""
    llrs = np.empty(len(values))
    for fold in range(5):
        rest = folds != fold
        bona_fide, spoof = (values[rest & (labels == label)] for label in (1, 0))
        llrs[~rest] = llr_of(calibrate(bona_fide, spoof, None, method), values[~rest])
    return cllr(llrs[labels == 1], llrs[labels == 0])


def test_what_a_calibration_was_learnt_from_is_in_the_file(capsys, tmp_path, network, scores):
    """By speakers where a protocol names them: no trial is measured by a map of its speaker."""
    rows = [f"{index}.wav\t{label}\ts{index % 7}\n" for index, label in enumerate(LABELS)]
    protocol = tmp_path / "trials.tsv"
    protocol.write_text("utterance\tlabel\tspeaker\n" + "".join(rows))
    out = run.ok(capsys, network, scores, "--protocol", protocol)
    calibration = calibration_of(network)
    assert (calibration.speakers, calibration.folds_of) == (7, "speakers")
    assert calibration.eer == eer(BONA_FIDE, SPOOF)[0]
    assert calibration.trials == read_scores(scores).digest()
    assert calibration.date == datetime.now(timezone.utc).date().isoformat()
    speakers = [f"s{i % 7}" for i in range(200)]
    folds = make_folds([f"{i}.wav" for i in range(200)], LABELS, speakers)
    assert len(set(zip(folds.tolist(), speakers, strict=True))) == 7
    expected = held_out_cllr(BOTH, LABELS, folds, Calibration.llr)
    assert calibration.cross_validated_cllr == pytest.approx(expected, rel=1e-6)
    assert f"{expected:.4f} after, cross-validated by speakers;" in out
    origin = calibration.describe_origin()
    assert origin.startswith("calibrated on scores: 60 bona fide and 140 spoofed recordings, 7 sp")


def test_a_copy_has_no_state_of_the_training(capsys, tmp_path, scores):
    states = {
        "optimiser_state": {"state": {0: {"exp_avg": torch.zeros(9)}}, "param_groups": []},
        "scaler_state": {"scale": 2.0},
        "unaveraged_state": {"a": torch.zeros(3)},
    }
    path = write_small_network(tmp_path / "n.pt", **states, progress={"epochs": 3})
    assert "training state" not in run.ok(capsys, path, scores, "--out", tmp_path / "cal.pt")
    before = torch.load(path, weights_only=True)
    after = torch.load(tmp_path / "cal.pt", weights_only=True)
    gone = {"optimizer_state_dict", "scaler_state_dict", "unaveraged_state_dict", "progress"}
    assert before.keys() - after.keys() == gone
    assert after.keys() - before.keys() == {"calibration"}
    # Into the same file nothing is lost: training goes on from it.
    assert "still contains its training state" in run.ok(capsys, path, scores)
    assert gone < torch.load(path, weights_only=True).keys()


def record_as_raw(path):
    """Write the record of raw.txt next to a score file, with that file's own SHA-256."""
    write_how_scored(Path(path), read_how_scored(Path("raw.txt")))


@pytest.fixture(scope="module")
def scored_once(tmp_path_factory):
    """Twelve recordings with their list, scored by a network, and another network."""
    folder = tmp_path_factory.mktemp("recorded")
    torch.manual_seed(3)
    lines = []
    for index in range(12):
        samples = 0.05 * (1 + index % 5) * torch.randn(6000).numpy()
        soundfile.write(folder / f"{index}.wav", samples, 16000)
        lines.append(f"{index}.wav {index % 2}\n")
    (folder / "list.txt").write_text("".join(lines))
    write_small_network(folder / "net.pt")
    other = write_small_network(folder / "other.pt")
    content = torch.load(other, weights_only=True)
    for tensor in content["model_state_dict"].values():
        if tensor.is_floating_point():
            tensor.mul_(1.1)
    torch.save(content, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["score", "net.pt", "list.txt", "--scores", "raw.txt", "--device", "cpu"]) == 0
        # Labelled by their order, so that they can be calibrated whatever the network says.
        raw = read_scores("raw.txt")
        labels = (raw.scores >= np.median(raw.scores)).astype(int)
        write_scores("scores.txt", raw.ids, labels, raw.scores)
        record_as_raw("scores.txt")
    return folder


@pytest.fixture
def recorded(scored_once, tmp_path, monkeypatch):
    """A copy of them in a folder to work in."""
    folder = shutil.copytree(scored_once, tmp_path / "recorded")
    monkeypatch.chdir(folder)
    return folder


def test_scores_state_their_network_and_their_number(capsys, recorded):
    entry = json.loads((recorded / "scores.scored.json").read_text())
    assert entry["trials"] == 12
    assert entry["network"] == network_digest("net.pt") != network_digest("other.pt")
    # A copy of the network, with a calibration or in another format, is the same network.
    assert run(capsys, "net.pt", "scores.txt", "--out", "cal.pt")[::2] == (0, "")
    assert network_digest("cal.pt") == entry["network"]
    assert main(["export", "cal.pt", "--format", "safetensors", "cal.safetensors"]) == 0
    assert network_digest("cal.safetensors") == entry["network"]


def test_scores_of_another_network_are_refused(capsys, recorded):
    """By the digest and by scoring; without recordings by the digest alone."""
    before = (recorded / "other.pt").read_bytes()
    for _ in range(2):
        status, _, errors = run(capsys, "other.pt", "scores.txt")
        assert status == 1
        assert "scores.txt does not contain scores of other.pt: " in errors
        assert "another network" in errors and "Score the list again" in errors
        (recorded / "scores.scored.json").unlink(missing_ok=True)
    assert run(capsys, "net.pt", "scores.txt", "--out", "c.pt")[::2] == (0, "")
    record_as_raw("scores.txt")
    for path in recorded.glob("*.wav"):
        path.unlink()
    run.refused(capsys, 1, "the digest next to it differs", "other.pt", "scores.txt")
    assert (recorded / "other.pt").read_bytes() == before


def test_scores_with_their_sign_turned_are_refused(capsys, recorded):
    scores = read_scores("scores.txt")
    write_scores("neg.txt", scores.ids, 1 - scores.labels, -scores.scores)
    run.refused(capsys, 1, "The signs are reversed", "net.pt", "neg.txt", "--out", "c.pt")
    assert not (recorded / "c.pt").exists()
    # From elsewhere the recordings are found by the option alone.
    (recorded / "else").mkdir()
    (recorded / "neg.txt").rename(recorded / "else" / "neg.txt")
    os.chdir("else")
    words = ("../net.pt", "neg.txt", "--out", "c.pt")
    status, _, errors = run(capsys, *words)
    assert status == 0 and "could not check" in errors and "--folder gives their location" in errors
    run.refused(capsys, 1, "The signs are reversed", *words, "--folder", "..")


def cut(lines):
    del lines[-3:]


def paste(lines):
    """Replace a score, as a line of another network's file does."""
    lines[1] = lines[1].replace(lines[1].split()[-1], "0.25")


def relabel(lines):
    name, label, score = lines[0].split()
    lines[0] = f"{name} {1 - int(label)} {score}\n"


OTHER_LINES = "its lines are not those that were scored: scores.scored.json next to it"
CUT = "it has 9 trials, but according to scores.scored.json next to it 12 were scored"


@pytest.mark.parametrize(
    ("command", "change", "message"),
    [
        ("calibrate", cut, CUT),
        ("evaluate", cut, CUT),
        ("evaluate", paste, OTHER_LINES),
        ("evaluate", relabel, OTHER_LINES),
        ("fuse", relabel, OTHER_LINES),
        ("compare", paste, OTHER_LINES),
        ("calibrate", list.reverse, "were scores or labels edited, pasted or sorted?"),
    ],
)
def test_a_score_file_with_other_lines_is_refused(capsys, recorded, command, change, message):
    for name in ("scores.txt", "scores.scored.json"):
        for run_folder in ("a", "b"):
            copy = recorded / run_folder / "scores" / "epoch.1" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, copy)
    words = {
        "calibrate": ["net.pt", "scores.txt", "--output", "cal.pt"],
        "evaluate": ["scores.txt"],
        "fuse": ["scores.txt", "raw.txt"],
        "compare": ["a", "b"],
    }[command]
    changed = [recorded / "scores.txt", recorded / "b" / "scores" / "epoch.1" / "scores.txt"]
    for path in changed:
        lines = path.read_text().splitlines(keepends=True)
        change(lines)
        path.write_text("".join(lines))
    assert main([command, *words]) == 1
    assert message in capsys.readouterr().err


def test_a_record_of_a_former_version_states_no_digest(capsys, recorded):
    """Nor does a file of another program: both are read as before."""
    path = recorded / "scores.scored.json"
    lines = (recorded / "scores.txt").read_text().splitlines(keepends=True)
    paste(lines)
    (recorded / "scores.txt").write_text("".join(lines))
    assert main(["evaluate", "scores.txt", "--replicates", "0"]) == 1
    entry = json.loads(path.read_text())
    del entry["sha256"]
    path.write_text(json.dumps(entry))
    assert main(["evaluate", "scores.txt", "--replicates", "0"]) == 0
    path.unlink()
    assert main(["evaluate", "scores.txt", "--replicates", "0"]) == 0


def test_a_table_of_the_same_name_is_another_file(recorded):
    words = ["--scores", "t.txt", "--csv", "t.csv", "--json", "t.json", "--device", "cpu"]
    assert main(["score", "net.pt", "list.txt", *words]) == 0
    for path in ("t.txt", "t.csv", "t.json"):
        assert main(["evaluate", path, "--replicates", "0"]) == 0


def write_protocol(path, rows):
    """A table of trials: path, label, and columns."""
    path.write_text("path,label,codec,language,speaker\n" + "".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture
def conditions(tmp_path, scores):
    """The protocol of `scores`: codecs and languages in turn, 20 speakers of both classes."""
    rows = []
    for index, key in enumerate(np.where(LABELS, "bonafide", "spoof")):
        codec, language = ("amr", "gsm", "opus")[index % 3], ("fr", "de")[index // 3 % 2]
        rows.append(f"{index}.wav,{key},{codec},{language},s{index % 20}")
    return write_protocol(tmp_path / "protocol.csv", rows)


def test_the_method_with_the_lowest_held_out_cllr_is_chosen(capsys, tmp_path, network):
    """One class has three times the deviation of the other: no affine map is the LLR."""
    rng = np.random.default_rng(2)
    labels = np.repeat([1, 0], [400, 400])
    values = np.concatenate([rng.normal(0, 1, 400), rng.standard_t(2, 400) - 4])
    path = tmp_path / "skewed.txt"
    write_scores(path, [f"{i}.wav" for i in range(800)], labels, values)
    out = run.ok(capsys, network, path)
    line = next(line for line in out.splitlines() if line.startswith("method: "))
    words = line.split(": ")[-1].replace(",", "").split()
    cllrs = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    chosen = calibration_of(network)
    assert set(cllrs) == {"logistic", "regularised", "bi-gaussian"}
    assert cllrs[chosen.method] <= min(cllrs.values()) + 0.005
    for method in cllrs:
        run(capsys, network, path, "--method", method)
        calibration = calibration_of(network)
        assert calibration.method == method
        assert calibration.cross_validated_cllr == pytest.approx(cllrs[method], abs=6e-5)
        assert decides_as(calibration, calibrate(values[:400], values[400:], method=method))
        folds = make_folds([f"{i}.wav" for i in range(800)], labels)
        expected = held_out_cllr(values, labels, folds, Calibration.unbounded_llr, method)
        assert calibration.cross_validated_cllr == pytest.approx(expected)


def test_only_matching_trials_are_learnt_from(capsys, network, scores, conditions):
    options = ("--protocol", conditions, "--where", "codec=amr|gsm,language=fr", "--method")
    out = run.ok(capsys, network, scores, *options, "logistic")
    numbers = np.arange(200)
    matches = (numbers % 3 < 2) & (numbers // 3 % 2 == 0)
    calibration = calibration_of(network)
    bona_fide, spoof = BOTH[matches & (LABELS == 1)], BOTH[matches & (LABELS == 0)]
    assert decides_as(calibration, calibrate(bona_fide, spoof))
    assert calibration.where == "codec=amr|gsm, language=fr"
    assert (calibration.bona_fide, calibration.spoof) == (bona_fide.size, spoof.size)
    assert "recordings with codec=amr|gsm, language=fr" in calibration.describe_origin()
    assert f"only {bona_fide.size} trials of a class match" in out


@pytest.mark.parametrize(
    ("where", "status", "message"),
    [
        ("codec=mp3", 1, "no trial matches. Values: amr (67), gsm (67), opus (66)"),
        ("room=big", 1, "no such column. Known columns: codec, language, speaker"),
        ("codec", 2, "expected COLUMN=VALUE"),
        ("codec=", 2, "expected COLUMN=VALUE"),
        ("codec=amr,codec=gsm", 2, "codec is given twice"),
    ],
)
def test_trials_that_are_not_there(capsys, network, scores, conditions, where, status, message):
    before = network.read_bytes()
    options = ("--protocol", conditions, "--where", where)
    found, _, errors = run(capsys, network, scores, *options)
    assert found == status and message in errors
    assert network.read_bytes() == before


def test_a_class_that_no_condition_leaves_is_refused(capsys, tmp_path, network, scores):
    cells = np.where(LABELS, "bonafide,amr,fr,s", "spoof,gsm,fr,s")
    rows = [f"{index}.wav,{row}" for index, row in enumerate(cells)]
    protocol = write_protocol(tmp_path / "p.csv", rows)
    status, _, errors = run(capsys, network, scores, "--protocol", protocol, "--where", "codec=gsm")
    assert status == 1
    assert "140 trials match, but none is bona fide" in errors
    assert "codec of the bona fide trials: Values: amr (60)" in errors


def test_a_set_that_chose_the_network_is_warned_of(capsys, tmp_path, scores):
    eers = {"scores": 0.1, "other": 0.2}
    records = [{"step": n, "network": f"epoch.{n}.pt", "eer": eers} for n in (1, 2)]
    path = write_small_network(tmp_path / "n.pt", progress={"step": 2, "evaluations": records})
    _, out, _ = run(capsys, path, scores)
    assert "warning: this set also chose the network" in out
    calibration = calibration_of(path)
    assert calibration.chose_network is True
    assert "this set also chose the network" in calibration.describe_origin()
    # Of one network there was no choice.
    alone = write_small_network(tmp_path / "a.pt", progress={"step": 1, "evaluations": records[:1]})
    _, out, _ = run(capsys, alone, scores)
    assert "also chose" not in out
    assert "chose_network" not in torch.load(alone, weights_only=True)["calibration"]


def test_a_detector_that_cannot_tell_is_said_last(capsys, network, tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "weak.txt"
    values = np.concatenate([rng.normal(0.3, 1, 60), rng.normal(-0.3, 1, 60)])
    write_scores(path, [f"{i}.wav" for i in range(120)], np.repeat([1, 0], 60), values)
    _, out, _ = run(capsys, network, path)
    calibration = calibration_of(network)
    highest, lowest = math.exp(calibration.highest_llr), math.exp(-calibration.lowest_llr)
    assert max(highest, lowest) < 10
    assert out.splitlines()[-1] == (
        f"warning: with this detector these recordings support no ratio above {highest:.2g} : 1 "
        f"for bona fide and {lowest:.2g} : 1 for spoof, so it cannot decide a case. Use more "
        "recordings, or another detector (`python -m asdf detectors` lists some)."
    )


def test_a_threshold_of_nearly_zero_is_said_as_zero():
    assert Calibration(1.0, 0.0, -4.476e-15).describe().startswith("bona fide from an LLR of 0 on")


def test_a_run_knows_by_which_set_it_chose(tmp_path):
    run_folder = tmp_path / "run"
    eers = {"dev": 0.1}
    records = [{"step": n, "network": f"epoch.{n}.pt", "eer": eers} for n in (1, 2, 3)]
    (run_folder / "networks").mkdir(parents=True)
    (run_folder / "networks" / "evaluations.json").write_text(json.dumps(records))
    scores = run_folder / "scores" / "epoch.2"
    assert chose_network(scores / "dev.txt", [])
    assert not chose_network(scores / "eval.txt", [])
    assert not chose_network(tmp_path / "dev.txt", [])


def test_llrs_are_bounded_and_verdicts_are_not(capsys, tmp_path, recorded):
    """A threshold beyond the bounds still divides recordings by the map."""
    run(capsys, "net.pt", "scores.txt", "--out", "cal.pt", "--method", "logistic")
    read = read_scores("scores.txt")
    map_alone = calibrate(read.bona_fide, read.spoof)
    calibration = calibration_of("cal.pt")
    bounds = support.empirical_bounds(map_alone.llr(read.bona_fide), map_alone.llr(read.spoof))
    assert (calibration.lowest_llr, calibration.highest_llr) == bounds
    highest = read.ids[int(np.argmax(read.scores))]
    # Trial scores, of which the calibration was learnt.
    (recorded / "one.txt").write_text(f"{highest} 1\n")
    options = ("--json", "o.json", "--csv", "o.csv", "--device", "cpu")
    assert main(["score", "cal.pt", "one.txt", *options]) == 0
    capsys.readouterr()
    answer = json.loads((recorded / "o.json").read_text())
    entry = answer["recordings"][0]
    unbounded = float(map_alone.llr(read.scores.max()))
    assert entry["llr"] == entry["score"] == calibration.highest_llr < unbounded
    assert entry["unbounded_llr"] == pytest.approx(unbounded, rel=1e-4)
    assert entry["log10_llr"] == pytest.approx(entry["llr"] / math.log(10))
    assert entry["llr_interval"][0] <= entry["llr"] == entry["llr_interval"][1]
    # Too short to be judged, so without words and their limit; a longer one is judged by the map.
    assert entry["verdict"] is None and "llr_words" not in entry
    assert entry["remark"].startswith("not judged") and "limit" not in entry["remark"]
    window = Window(0, 64000, float(read.scores.max()), {}, np.zeros(2))
    judged = asdf.Detector("cal.pt", "cpu").pipeline.summary.score_tally(Tally([window]))
    assert judged.llr == entry["llr"]
    assert judged.llr_words.endswith("support for bona fide rather than spoof")
    assert "LLR at the limit of what 6 + 6 recordings support" in judged.remark
    beyond = entry["llr"] + 0.01
    for unbounded, verdict in ((beyond, "bona fide"), (None, "spoof")):
        values = {"llr": Ratio(entry["llr"], unbounded)}
        score = Score(judged.score, threshold=beyond, values=values, columns=judged.columns)
        assert decide_verdict(score) == verdict
    assert answer["calibration"]["origin"] == calibration.describe_origin()
    assert not {"replicates", "scale"} & answer["calibration"].keys()
    heading, row = (recorded / "o.csv").read_text().splitlines()
    assert heading.endswith("log10_llr,llr_low,llr_high,unbounded_llr,llr_words")
    cells = dict(zip(heading.split(","), row.split(","), strict=True))
    assert float(cells["unbounded_llr"]) == entry["unbounded_llr"]
    assert float(cells["llr_low"]) == entry["llr_interval"][0]
