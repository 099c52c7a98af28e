"""`python -m asdf fuse`: what is shown, written and refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asdf.__main__ import main
from asdf.evaluation import read_scores, write_scores
from asdf.metrics.fusion import fit_fusion
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.scored_files import read_how_scored, remove_how_scored, write_how_scored
from tests.unit.commands.running import Runner
from tests.unit.conftest import write_small_network

run = Runner("fuse")

LABELS = np.repeat([1, 0], [60, 90])
RNG = np.random.default_rng(8)
SCORES = {
    name: (RNG.normal(size=(150, 2)) + LABELS[:, None] * (2, 1.5)).astype(np.float32)
    for name in ("dev", "eval")
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, scores in SCORES.items():
        for system, column in zip("ab", scores.T, strict=True):
            ids = [f"{name}/{index}.wav" for index in range(150)]
            path = tmp_path / f"{system}_{name}.txt"
            write_scores(path, ids, LABELS, column)
            write_how_scored(path, HowScored(ScoredLength(64600, 64600), "fp32"))
    return tmp_path


def test_the_fused_file_is_that_of_all_development_trials(capsys, files):
    words = ("--apply", "a_eval.txt", "b_eval.txt", "--out", "fused.txt", "--replicates", 20)
    out = run.ok(capsys, "a_dev.txt", "b_dev.txt", "--on", "dev", *words)
    fusion = fit_fusion("logistic", SCORES["dev"].astype(np.float64), LABELS)
    fused = read_scores("fused.txt")
    # The files hold the shortest texts of float32 numbers.
    np.testing.assert_allclose(fused.scores, fusion.fuse(SCORES["eval"]), rtol=1e-6, atol=1e-6)
    assert fused.ids[0] == "eval/0.wav" and fused.labels.tolist() == LABELS.tolist()
    assert read_how_scored(files / "fused.txt").length.max_samples == 64600
    assert "fusion of 2 systems on dev: 150 trials, 60 bona fide, 90 spoof" in out
    assert "written to fused.txt: 150 scores" in out and "also in that set" not in out
    words = ("--apply", "a_dev.txt", "b_dev.txt", "--out", "again.txt", "--replicates", 0)
    out = run.ok(capsys, "a_dev.txt", "b_dev.txt", *words)
    assert "150 of its 150 trials are also in that set, so the fusion looks better" in out


def test_the_same_scores_in_any_order_give_the_same_bytes(capsys, files):
    texts = []
    for position in range(3):
        if position == 2:
            lines = (files / "b_dev.txt").read_text().splitlines(keepends=True)
            (files / "b_dev.txt").write_text("".join(reversed(lines)))
            # It would say that the lines were changed.
            remove_how_scored(files / "b_dev.txt")
        run(capsys, "a_dev.txt", "b_dev.txt", "--json", "out.json", "--replicates", 20)
        texts.append((files / "out.json").read_bytes())
    assert texts[0] == texts[1] == texts[2]
    record = json.loads(texts[0])
    fusion = fit_fusion("logistic", SCORES["dev"].astype(np.float64), LABELS)
    np.testing.assert_allclose(record["fusion"]["weights"], fusion.weights, rtol=1e-6)
    assert [system["name"] for system in record["systems"]] == ["a_dev", "b_dev"]
    assert len(record["systems"][0]["fold_weights"]) == 5


def test_speakers_of_the_protocol_are_held_out_together(capsys, files):
    rows = ["utterance\tlabel\tspeaker\n"]
    for index, label in enumerate(LABELS):
        rows.append(f"dev/{index}.wav\t{label}\ts{index % 6}\n")
    (files / "trials.tsv").write_text("".join(rows))
    out = run.ok(capsys, "a_dev.txt", "b_dev.txt", "--protocol", "trials.tsv", "--replicates", 20)
    assert "cross-validated in 5 folds of speakers" in out
    assert "paired bootstrap over speakers" in out


def test_folders_take_the_file_of_the_set(capsys, files):
    for system in "ab":
        (files / system).mkdir()
        (files / f"{system}_dev.txt").rename(files / system / "dev.txt")
    status, out, _ = run(capsys, "a", "b", "--on", "dev", "--replicates", 0)
    assert status == 0 and "\na " in out and "\nb " in out
    run.refused(capsys, 2, "a is a folder. Select one of its score files with --on SET", "a", "b")


def test_unlabelled_scores_are_fused_too(capsys, files):
    for system in "ab":
        scores = read_scores(f"{system}_eval.txt")
        lines = [f"{u} {s!r}\n" for u, s in zip(scores.ids, scores.scores.tolist(), strict=True)]
        (files / f"{system}_new.txt").write_text("".join(lines))
    for system, out in (("new", "new.txt"), ("eval", "l.txt")):
        words = ("--apply", f"a_{system}.txt", f"b_{system}.txt", "--out", out, "--replicates", 0)
        assert run(capsys, "a_dev.txt", "b_dev.txt", *words)[0] == 0
    new = [line.split() for line in (files / "new.txt").read_text().splitlines()]
    labelled = [line.split() for line in (files / "l.txt").read_text().splitlines()]
    assert new == [[utterance, score] for utterance, _, score in labelled]
    words = ("--apply", "a_new.txt", "b_eval.txt", "--out", "l.txt")
    run.refused(capsys, 2, "some have labels, others do not", "a_dev.txt", "b_dev.txt", *words)


DEV = ("a_dev.txt", "b_dev.txt")
APPLY = (*DEV, "--apply", "a_eval.txt", "b_eval.txt")
OVERWRITE = "and would overwrite it"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["a_dev.txt"], 2, "a fusion needs at least two systems"),
        ([*DEV, "--out", "x"], 2, "--output must be given together with --apply"),
        ([*APPLY[:-1], "--out", "x"], 2, "--apply has 1 values, but the fusion has 2 systems"),
        ([*DEV, "--folds", "1"], 2, "--folds must be at least 2"),
        ([*DEV, "--json", "a_dev.txt"], 2, OVERWRITE),
        (["A=a_dev.txt", "b_dev.txt", "--json", "a_dev.txt"], 2, OVERWRITE),
        ([*DEV, "--protocol", "dev.csv", "--json", "dev.csv"], 2, OVERWRITE),
        ([*APPLY, "--out", "b_eval.txt"], 2, OVERWRITE),
        ([*APPLY, "--out", "new.json", "--json", "new.json"], 2, OVERWRITE),
        (["a_dev.txt", "cut.txt"], 1, "does not have the trials of a_dev.txt: 2 are without a"),
        (["a_dev.txt", "renamed.txt"], 1, "a_dev.txt: 1 are not in it: 'dev/other"),
        (["a_dev.txt", "twice.txt"], 1, "'dev/0.wav' was already scored in line 1"),
        (["a_dev.txt", "bare.txt"], 1, "1 trials of a_dev.txt are scored more than once"),
        (["a_dev.txt", "label.txt"], 1, "1 of 150 trials are labelled differently in a_dev.txt"),
    ],
)
def test_mistakes_are_one_message_and_write_nothing(capsys, files, words, status, message):
    first, *others = (files / "b_dev.txt").read_text().splitlines(keepends=True)
    for name, lines in {
        "cut": [first, *others[2:]],
        "renamed": [first.replace("dev/0.wav", "dev/other.wav"), *others],
        "twice": [first, *others, first],
        "bare": [first, *others, first.replace("dev/0.wav", "0")],
        "label": [first.replace(" 1 ", " 0 "), *others],
    }.items():
        (files / f"{name}.txt").write_text("".join(lines))
    rows = [f"dev/{index}.wav,{label}\n" for index, label in enumerate(LABELS)]
    (files / "dev.csv").write_text("".join(["path,label\n", *rows]))
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    ended, _, errors = run(capsys, *words)
    assert ended == status and message in errors
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


@pytest.fixture
def two_networks(tmp_path, monkeypatch, capsys):
    """Two networks, and the scores that each gives twelve recordings."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(3)
    lines = []
    for index in range(12):
        samples = 0.05 * (1 + index % 5) * torch.randn(8000).numpy()
        soundfile.write(tmp_path / f"{index}.wav", samples, 16000)
        lines.append(f"{index}.wav {index % 2}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    write_small_network(tmp_path / "a.pt")
    other = write_small_network(tmp_path / "b.pt")
    content = torch.load(other, weights_only=True)
    for tensor in content["model_state_dict"].values():
        if tensor.is_floating_point():
            tensor.mul_(1.1)
    torch.save(content, tmp_path / "b.pt")
    ranks = np.zeros(12)
    for name in "ab":
        words = ["score", f"{name}.pt", "list.txt", "--scores", f"{name}.txt", "--device", "cpu"]
        assert main(words) == 0
        ranks += read_scores(f"{name}.txt").scores.argsort().argsort()
    # Labelled by their order, so that both can be fused whatever they say.
    labels = (ranks >= np.sort(ranks)[6]).astype(int)
    for name in "ab":
        scores = read_scores(f"{name}.txt")
        write_scores(f"{name}.txt", scores.ids, labels, scores.scores)
        write_how_scored(Path(f"{name}.txt"), read_how_scored(Path(f"{name}.txt")))
    capsys.readouterr()
    return tmp_path


def test_networks_in_another_order_than_their_scores_are_refused(capsys, two_networks):
    words = ("a.txt", "b.txt", "--folds", 3, "--replicates", 0, "--out", "f.json", "--networks")
    turned = (*words, "b.pt", "a.pt")
    run.refused(capsys, 1, "a.txt was scored with a.pt, not with b.pt", *turned)
    for name in "ab":
        (two_networks / f"{name}.scored.json").unlink()
    run.refused(capsys, 1, "a.txt does not contain scores of b.pt: ", *turned)
    assert not (two_networks / "f.json").exists()
    status, _, errors = run(capsys, *words, "a.pt", "b.pt")
    assert (status, errors) == (0, "")
    labels = read_scores("a.txt").labels
    calibration = json.loads((two_networks / "f.json").read_text())["calibration"]
    assert (calibration["bona_fide"], calibration["spoof"]) == (labels.sum(), 12 - labels.sum())
    assert calibration["folds_of"] == "trials" and calibration["cross_validated_cllr"] > 0
