"""`python -m asdf panel`: whom it excludes, what it writes, and what recordings then get."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import asdf
from asdf.__main__ import main
from asdf.checkpoint.fused_file import describe_networks, locate_network, read_fused_file
from asdf.evaluation import read_scores
from asdf.interchange import find_network
from asdf.metrics.fusion import fit_fusion
from asdf.scoring.document import Documents
from tests.unit.panels import write_control, write_detectors

ALL = ("a", "b", "chance", "turned")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Recordings, detectors, and the panel of them."""
    folder = tmp_path_factory.mktemp("panel")
    write_control(folder)
    write_detectors(folder)
    words = [folder / f"{name}.pt" for name in ALL]
    control = folder / "control.tsv"
    out = ("--output", folder / "panel.json", "--json", folder / "all.json", "--device", "cpu")
    words = ["panel", *words, "--control", control, *out, "--replicates", 20]
    assert main(list(map(str, words))) == 0
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch) -> Path:
    """A copy of them, which is the current folder."""
    copy = tmp_path / "panel"
    shutil.copytree(made, copy)
    monkeypatch.chdir(copy)
    return copy


def run(capsys, *words, control="control.tsv"):
    given = ["panel", *words, "--control", control, "--output", "new.json", "--replicates", 20]
    status = main(list(map(str, given)))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_detectors_at_chance_and_turned_round_are_no_members(folder):
    panel = read_fused_file(folder / "panel.json").panel
    assert panel.names == ("a", "b") and panel.excluded == ("chance", "turned")
    record = json.loads((folder / "all.json").read_text())
    rows = {row["name"]: row for row in record["panel"]["competence"]}
    assert rows["turned"]["turned"] and not rows["chance"]["turned"]
    assert rows["a"]["p"] < 0.001 < rows["chance"]["p"]


def test_weights_are_those_of_all_control_trials(folder):
    scores = [read_scores(folder / "panel_scores" / f"{name}.txt") for name in "ab"]
    columns = np.stack([own.scores for own in scores], axis=1)
    expected = fit_fusion("logistic", columns, scores[0].labels)
    fusion = read_fused_file(folder / "panel.json").fusion
    np.testing.assert_allclose(fusion.weights, expected.weights, rtol=1e-6)


def test_each_member_says_what_it_says_by_itself(folder):
    system = read_fused_file(folder / "panel.json")
    detector = asdf.Detector(folder / "panel.json", "cpu", speech_check="off")
    alone = [asdf.Detector(folder / f"{name}.pt", "cpu") for name in "ab"]
    verdicts = set()
    for index in range(0, 60, 7):
        path = folder / f"{index}.wav"
        score = detector.score(path)
        raw = [float(each.score(path)) for each in alone]
        assert score.raw == pytest.approx(system.fusion.fuse(np.array([raw]))[0], rel=1e-6)
        for member, own, known in zip(
            score.agreement.members, raw, system.panel.members, strict=True
        ):
            calibration = known.calibration
            # The affine map, written out; bounds cut what is claimed and no decision.
            llr = calibration.scale * own + calibration.offset
            bounded = min(max(llr, calibration.lowest_llr), calibration.highest_llr)
            assert member.llr == pytest.approx(bounded, rel=1e-5)
            assert member.verdict == ("bona fide" if llr >= calibration.threshold else "spoof")
        said = [member.verdict for member in score.agreement.members]
        verdicts.add(tuple(said))
        assert score.agreement.bona_fide == said.count("bona fide")
        assert score.agreement.spoof == said.count("spoof")
    assert len(verdicts) > 1


def test_of_windows_a_member_says_what_their_mean_says(folder):
    detector = asdf.Detector(folder / "panel.json", "cpu", speech_check="off")
    whole = detector.score_whole(folder / "2.wav")
    windows = detector.score_over_time(folder / "2.wav", 0.5, 0.5)
    assert whole.windows == len(windows) == 2
    for index, member in enumerate(whole.agreement.members):
        llrs = [window.extras["members"].members[index].llr for window in windows]
        assert member.llr == pytest.approx(np.mean(llrs), abs=1e-4)


def test_what_is_not_judged_has_no_agreement(folder):
    detector = asdf.Detector(folder / "panel.json", "cpu")
    silent = detector.score_whole(np.zeros(16000), 16000)
    assert silent.verdict is None and silent.agreement is None
    assert "agreement" not in silent.entry()


def test_text_csv_and_json_state_it(folder, capsys):
    words = ["score", "panel.json", "2.wav", "1.wav", "--speech-check", "off"]
    assert main([*words, "--csv", "out.csv"]) == 0
    captured = capsys.readouterr()
    assert "panel of 2 detectors: a, b; excluded as not better than chance" in captured.err
    lines = captured.out.splitlines()
    assert "1 of 2 detectors says bona fide; spoof: a (LLR " in lines[0]
    assert "both detectors say bona fide" in lines[1]
    rows = list(csv.DictReader((folder / "out.csv").open()))
    assert main([*words, "--json", "out.json"]) == 0
    document = json.loads((folder / "out.json").read_text())
    assert [member["name"] for member in document["panel"]["members"]] == ["a", "b"]
    for row, entry in zip(rows, document["recordings"], strict=True):
        agreement = entry["agreement"]
        assert int(row["members_bona_fide"]) == agreement["bona_fide"]
        assert int(row["members_spoof"]) == agreement["spoof"]
        for member in agreement["members"]:
            assert float(row[f"member_{member['name']}"]) == member["llr"]
    assert document["recordings"][0]["agreement"]["bona_fide"] == 1


def test_the_service_and_a_case_have_it(folder):
    detector = asdf.Detector(folder / "panel.json", "cpu", speech_check="off")
    result = detector.score_whole(folder / "2.wav")
    document = Documents(detector, "panel.json").make(result, [], False, None)
    answered = document["recordings"][0]["agreement"]
    assert answered == result.agreement.entry()
    answers = pytest.importorskip("asdf.service.answers", reason="the service is not installed")
    assert set(answered) == set(answers.AgreementAnswer.model_fields)
    assert set(answered["members"][0]) == set(answers.MemberAnswer.model_fields)
    answers.RecordingAnswer.model_validate({**document["recordings"][0], "sha256": ""})
    words = ["case", "panel.json", "2.wav", "--speech-check", "off"]
    assert main([*words, "-o", "case.html", "--json", "case.json"]) == 0
    page = (folder / "case.html").read_text()
    assert "Competence on the control set" in page and "LLR of a" in page
    record = json.loads((folder / "case.json").read_text())
    said = " ".join(record["recordings"][0]["statements"])
    assert "By themselves, 1 of 2 detectors says bona fide" in said
    assert any("not independent witnesses" in limit for limit in record["limits"])


def test_scores_that_are_there_are_taken(folder, capsys):
    (folder / "panel_scores").rename(folder / "new_scores")
    stamps = [path.stat().st_mtime_ns for path in sorted((folder / "new_scores").iterdir())]
    status, out, errors = run(capsys, *(f"{name}.pt" for name in ALL))
    assert status == 0 and errors.count("using the scores in") == 4
    assert [p.stat().st_mtime_ns for p in sorted((folder / "new_scores").iterdir())] == stamps
    assert (folder / "new.json").read_bytes() == (folder / "panel.json").read_bytes()
    assert "excluded" in out and "written to new.json" in out


def test_scores_of_another_network_are_computed_again(folder, capsys):
    (folder / "panel_scores").rename(folder / "new_scores")
    (folder / "b.pt").write_bytes((folder / "turned.pt").read_bytes())
    shutil.copy(folder / "a.pt", folder / "other.pt")
    words = ("a.pt", "b.pt", "chance.pt")
    status, _, errors = run(capsys, *words)
    assert "b: scoring 60 recordings" in errors and "a: using the scores" in errors
    # Of a alone there is no panel.
    assert status == 1 and "only a is better than chance on control.tsv" in errors
    assert not (folder / "new.json").exists()


def test_no_competent_detector(folder, capsys):
    status, out, errors = run(capsys, "chance.pt", "turned.pt")
    assert status == 1 and "no detector is better than chance" in errors
    assert "not better than chance: excluded" in out


def test_names_are_stated_or_those_of_files(folder, capsys):
    (folder / "runs").mkdir()
    shutil.copy(folder / "b.pt", folder / "runs" / "a.pt")
    status, _, _ = run(capsys, "mine=a.pt", "runs/a.pt")
    assert status == 0
    assert read_fused_file(folder / "new.json").panel.names == ("mine", "a")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.pt",), "at least two detectors"),
        (("a.pt", "again=a.pt"), "a.pt and a.pt are the same"),
        (("a.pt", "missing.pt"), "no network missing.pt"),
        (("a.pt", "b.pt", "--level", "2"), "--level 2"),
        (("a.pt", "b.pt", "--folds", "1"), "--folds must be at least 2"),
        (("a.pt", "b.pt", "--json", "control.tsv"), "would overwrite"),
    ],
)
def test_mistakes_are_found_before_anything_is_scored(folder, capsys, words, message):
    status, _, errors = run(capsys, *words)
    assert status == 2 and message in errors
    assert not (folder / "new_scores").exists()


def test_a_control_set_has_both_classes_with_labels(folder, capsys):
    (folder / "spoofs.txt").write_text("0.wav 0\n2.wav 0\n")
    status, _, errors = run(capsys, "a.pt", "b.pt", control="spoofs.txt")
    assert status == 2 and "the control set has only one class" in errors
    (folder / "plain").mkdir()
    shutil.copy("0.wav", "plain/0.wav")
    status, _, errors = run(capsys, "a.pt", "b.pt", control="plain")
    assert status == 2 and "Add labels" in errors


def test_folders_of_both_classes_are_a_control_set(folder, capsys):
    for name, label in (("real", 1), ("fake", 0)):
        (folder / "mine" / name).mkdir(parents=True)
        for index in range(label, 60, 2):
            shutil.copy(f"{index}.wav", folder / "mine" / name)
    status, out, _ = run(capsys, "a.pt", "b.pt", control="mine")
    assert status == 0 and "60 recordings, 30 bona fide, 30 spoof" in out


def test_speakers_of_the_table_are_drawn_and_ranked(folder, capsys):
    write_control(folder, speakers=10)
    status, out, _ = run(capsys, "a.pt", "b.pt")
    assert status == 0 and "over 10 speakers" in out and "5 folds of speakers" in out


@pytest.mark.parametrize(
    "change",
    [
        lambda panel: panel["members"].pop(),
        lambda panel: panel["members"][0].update(name=3),
        lambda panel: panel["members"][0].update(name="b"),
        lambda panel: panel["members"][0]["calibration"].update(scale="1"),
        lambda panel: panel.pop("competence"),
        lambda panel: panel.update(level=None),
    ],
)
def test_a_damaged_panel_is_refused(folder, capsys, change):
    content = json.loads((folder / "panel.json").read_text())
    change(content["panel"])
    (folder / "bad.json").write_text(json.dumps(content))
    assert main(["score", "bad.json", "1.wav"]) == 1
    assert "bad.json cannot be used" in capsys.readouterr().err


def test_calibrate_leaves_the_panel_as_it_is(folder, capsys):
    scores = [read_scores(folder / "panel_scores" / f"{name}.txt") for name in "ab"]
    fusion = read_fused_file(folder / "panel.json").fusion
    fused = fusion.fuse(np.stack([own.scores for own in scores], axis=1))
    lines = [
        f"{name} {label} {score!r}\n"
        for name, label, score in zip(
            scores[0].ids, scores[0].labels.tolist(), fused.tolist(), strict=True
        )
    ]
    Path("fused.txt").write_text("".join(lines))
    before = read_fused_file(folder / "panel.json")
    assert main(["calibrate", "panel.json", "fused.txt", "--prior", "0.05"]) == 0
    after = read_fused_file(folder / "panel.json")
    assert after.panel == before.panel and after.calibration.spoof_prior == 0.05


def test_the_shipped_detector_is_named_and_not_located(tmp_path):
    """A panel with it goes to another machine, where its path is another."""
    [small] = describe_networks(["small"], [find_network("small")], tmp_path / "x.json")
    assert small.path == "small"
    assert Path(locate_network(small, tmp_path / "x.json")) == find_network("small")
    # A file of that name next to the panel is meant where there is one.
    (tmp_path / "small").touch()
    assert Path(locate_network(small, tmp_path / "x.json")) == tmp_path / "small"
