"""`python -m asdf score`: what it prints, what it writes, how it ends."""

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.commands.journal import Journal
from asdf.commands.score import COMMAND, name_network
from asdf.errors import UsageError
from asdf.evaluation import read_scores
from asdf.extras.cpu.packed_weights import is_available
from asdf.interchange import network_digest
from asdf.metrics.calibration import Calibration
from tests.unit.conftest import small_settings, sound, write_small_network

NAMES = ["a.wav", "b.flac", "c.WAV", "d.ogg", "e.mp3"]


HEADING = (
    "scores of whole recordings; of those longer than 16,000 samples (1 s), the mean over windows "
    "of that length; higher: more bona fide; 1 thread\n"
)


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """Five recordings of half a second and more; the last is longer than the network's input."""
    folder = tmp_path_factory.mktemp("five")
    soundfile.write(folder / "a.wav", sound(9000), 16000)
    soundfile.write(folder / "b.flac", sound(8500, 1), 16000)
    soundfile.write(folder / "c.WAV", sound(9000, 2), 16000)
    soundfile.write(folder / "d.ogg", np.outer(sound(30000, 3), [1, 0.5]), 44100)
    soundfile.write(folder / "e.mp3", sound(60000, 5), 48000)
    return folder


@pytest.fixture
def folder(five, tmp_path, monkeypatch):
    """A copy of them in a folder to work in."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(five, tmp_path / "recordings")


def settings():
    return small_settings(max_evaluation_utterance_length_in_samples=16000)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    return str(write_small_network(folder / "network.pt", settings()))


@pytest.fixture
def score(capsys, network):
    """Run the command on the CPU: exit status, lines of stdout, stderr."""

    def run(*words, network=network):
        status = main(["score", network, *map(str, words), "--device", "cpu"])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err

    return run


@pytest.fixture(scope="module")
def detector(network):
    return asdf.Detector(network, "cpu")


@pytest.fixture(scope="module")
def expected(detector, five):
    """The scores of the whole recordings."""
    return [detector.score_whole(five / name).score for name in NAMES]


@pytest.fixture(scope="module")
def trials(detector, five):
    """The scores of as much of them as a protocol hears."""
    return [detector.score_trial(five / name) for name in NAMES]


def test_one_line_a_recording_in_order(folder, score, detector, expected):
    status, lines, errors = score("recordings")
    assert (status, errors) == (0, HEADING)
    assert [line.split("\t")[:2] for line in lines] == [
        [f"recordings/{name}", f"{value:.4f}"] for name, value in zip(NAMES, expected, strict=True)
    ]
    lowest = detector.score_whole(folder / "e.mp3").lowest
    span = "0:00-0:01" if lowest.start_s == 0 else "0:00.2-0:01.2"
    notes = f"mean of 2 windows, lowest {lowest.score:.4f} at {span}"
    assert [line.split("\t")[2:] for line in lines] == [[], [], [], [], [notes]]


def test_without_an_output_what_was_shown_is_not_kept(folder, score, monkeypatch):
    """A list may have millions of recordings, and their results fill no disk."""
    held = []
    clear = Journal.clear

    def cleared(journal):
        clear(journal)
        journal._file.seek(0)
        held.append(len(journal._file.read()))

    monkeypatch.setattr(Journal, "clear", cleared)
    status, lines, _ = score("recordings")
    assert (status, len(lines)) == (0, 5)
    assert held and set(held) == {0}
    held.clear()
    # Entries of an output are read again to write it.
    assert score("recordings", "--csv", "out.csv")[0] == 0
    assert held == []


def test_trial_scores_are_of_as_much_as_the_protocol_hears(folder, score, trials):
    (folder / "list.txt").write_text("".join(f"{name} 1\n" for name in NAMES))
    message = (
        "trial scores of whole recordings up to 16,000 samples (1 s), of longer ones the "
        "beginning; higher: more bona fide; 1 thread"
    )
    cut = "only the first 1.00 s of 1.25 s are scored"
    for words in (("recordings", "--trial"), (folder / "list.txt",)):
        status, lines, errors = score(*words)
        assert status == 0
        assert [line.split("\t")[1] for line in lines] == [f"{value:.4f}" for value in trials]
        assert lines[4].split("\t")[2:] == [cut]
        # A remark stands once: in the line of its recording.
        assert [line for line in errors.splitlines() if "asdf" not in line] == [
            message,
            "remarks in the lines of recordings: 1",
        ]


def test_silence_and_short_recordings_have_no_verdict(folder, score):
    soundfile.write(folder / "f.wav", np.zeros(20000), 16000)
    soundfile.write(folder / "g.wav", sound(800), 16000)
    words = ("recordings/f.wav", "recordings/g.wav", "--csv", "out.csv", "--json", "out.json")
    status, lines, errors = score(*words, "--threshold", "-100")
    assert status == 0
    remarks = [
        "not judged: digital silence (nothing above -80 dB of full scale)",
        "not judged: 0.05 s are too short (under 0.5 s of speech)",
    ]
    assert [line.split("\t")[2] for line in lines] == ["", ""]
    assert lines[0].split("\t")[3].startswith("mean of 2 windows, lowest ")
    assert lines[0].endswith(f"; {remarks[0]}")
    assert lines[1].split("\t")[3] == remarks[1]
    assert "not judged" not in errors
    assert "remarks in the lines of recordings: 2\n" in errors
    rows = list(csv.DictReader((folder.parent / "out.csv").open()))
    assert [(row["verdict"], row["remark"]) for row in rows] == [("", each) for each in remarks]
    seconds = [(row["seconds"], row["seconds_scored"]) for row in rows]
    assert seconds == [("1.25",) * 2, ("0.05",) * 2]
    written = json.loads((folder.parent / "out.json").read_text())
    verdicts = [(entry["verdict"], entry["remark"]) for entry in written["recordings"]]
    assert verdicts == [(None, each) for each in remarks] and written["complete"] is True


def test_a_long_recording_is_seen_to_go_on(folder, score, monkeypatch):
    """In a pipe or a job's log too, where there is no bar; standard output holds results alone."""
    monkeypatch.setattr("asdf.runs.log._FIRST_LINES_EVERY_S", 0.0)
    monkeypatch.setattr("asdf.scoring.pipeline._HELD_ON_CPU", 8000)
    soundfile.write(folder / "long.wav", sound(5 * 16000), 16000)
    status, lines, errors = score(folder / "long.wav")
    assert (status, len(lines)) == (0, 1) and lines[0].startswith(str(folder / "long.wav"))
    shown = [line.rpartition(",")[0] for line in errors.splitlines()[1:]]
    assert shown == [f"scoring long.wav: {done} of 5" for done in (1, 2, 3, 4)]
    status, lines, errors = score(folder / "d.ogg", "--window", 0.5, "--hop", 0.25)
    assert status == 0 and "scoring d.ogg: 1 of 2, " in errors
    status, lines, errors = score(folder / "a.wav", folder / "long.wav")
    assert status == 0 and "scoring: 1 of 2, " in errors


def test_a_network_that_is_missing_is_named_before_slow_imports(folder):
    code = (
        "import sys; from asdf.commands import score\n"
        "try: score.main(['xls-r', 'recordings'])\n"
        "except Exception as error: print(error)\n"
        "print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    words, torch_is_there = done.stdout.splitlines()
    message = f"there is no file xls-r in {folder}, and no detector of that name. Did"
    assert words.startswith(message) and torch_is_there == "False"


def test_a_broken_file_is_reported_and_the_rest_go_on(folder, score):
    (folder / "b2.wav").write_text("no sound")
    status, lines, errors = score("recordings", "--json", "out.json")
    assert status == 1
    assert lines[2] == "recordings/b2.wav\terror" and len(lines) == 6
    assert "recordings/b2.wav is not audio" in errors
    assert "1 of 6 recordings could not be scored" in errors
    written = json.loads((folder.parent / "out.json").read_text())["recordings"]
    assert written[2]["score"] is None
    assert "not audio" in written[2]["error"]
    assert [entry["score"] is None for entry in written].count(False) == 5


@pytest.mark.usefixtures("bfloat16")
def test_the_precision_stands_in_every_output_and_no_two_are_mixed(folder, score, network):
    (folder / "list.lst").write_text("".join(f"{name} {i % 2}\n" for i, name in enumerate(NAMES)))
    words = ("recordings/list.lst", "--scores", "s.txt", "--csv", "s.csv", "--json", "s.json")
    status, _, errors = score(*words, "--precision", "bf16")
    assert status == 0
    # Above it, on some processors, what bf16 is there.
    heading = "trial scores of whole recordings up to 16,000 samples (1 s), of lo"
    end = ", in bf16; higher: more bona fide; 1 thread"
    assert re.search(rf"^{re.escape(heading)}.*{re.escape(end)}$", errors, re.MULTILINE)
    top = folder.parent
    assert json.loads((top / "s.scored.json").read_text())["precision"] == "bf16"
    written = json.loads((top / "s.json").read_text())
    assert written["precision"] == "bf16" and written["scores"].endswith(", in bf16")
    rows = list(csv.DictReader((top / "s.csv").open()))
    assert [row["precision"] for row in rows] == ["bf16"] * 5
    detector = asdf.Detector(network, "cpu", precision="bf16")
    results = sorted(detector.score_many(folder / n for n in NAMES), key=lambda each: each.index)
    assert [float(row["score"]) for row in rows] == [result.score for result in results]


@pytest.mark.usefixtures("bfloat16")
def test_what_was_begun_in_another_precision_begins_anew(folder, score, monkeypatch):
    whole = asdf.Detector.score_many

    def interrupted(*words, **options):
        yield from islice(whole(*words, **options), 2)
        raise KeyboardInterrupt

    words = ("recordings", "--csv", "s.csv", "--precision")
    with monkeypatch.context() as patched:
        patched.setattr(asdf.Detector, "score_many", interrupted)
        assert score(*words, "bf16")[0] == 130
        errors = score(*words, "bf16")[2]
        assert "2 of 5 recordings were scored before: resuming from there" in errors
    status, _, errors = score(*words, "fp32")
    assert status == 0
    assert "results for s.csv from a different command were found: starting again" in errors
    rows = list(csv.DictReader((folder.parent / "s.csv").open()))
    assert [row["precision"] for row in rows] == ["fp32"] * 5


def test_csv_and_json_hold_the_very_numbers(folder, score, detector, trials):
    (folder / "list.txt").write_text("a.wav 1\nc.WAV 0\n")
    # One of the two recordings is not above it.
    threshold = (float(trials[0]) + float(trials[2])) / 2
    options = "--csv o/out.csv --json o/out.json --window 0.25 --hop 0.125 --speech-check off"
    words = (folder / "list.txt", *options.split(), f"--threshold={threshold!r}")
    status, lines, errors = score(*words)
    assert status == 0 and "bona fide from a score of" in errors
    rows = list(csv.DictReader((folder.parent / "o/out.csv").open()))
    header = "path start_s end_s score verdict label error seconds seconds_scored remark lowest "
    header += "lowest_start_s"
    assert list(rows[0]) == [*header.split(), "lowest_end_s", "precision"]
    assert {row["precision"] for row in rows} == {"fp32"}
    whole = [row for row in rows if not row["start_s"]]
    listed = [(str(folder / "a.wav"), "1"), (str(folder / "c.WAV"), "0")]
    assert [(row["path"], row["label"]) for row in whole] == listed
    written = json.loads((folder.parent / "o/out.json").read_text())
    assert (written["kind"], written["threshold"]) == ("score", threshold)
    assert {row["verdict"] for row in whole} == {"bona fide", "spoof"}
    for row, entry, name in zip(whole, written["recordings"], ("a.wav", "c.WAV"), strict=True):
        expected = pytest.approx(detector.score_trial(folder / name), abs=1e-6)
        assert float(row["score"]) == entry["score"] == expected
        verdict = "bona fide" if entry["score"] >= threshold else "spoof"
        assert row["verdict"] == entry["verdict"] == verdict
        windows = detector.score_over_time(folder / name, 0.25, 0.125)
        parts = [part for part in rows if part["path"] == row["path"] and part["start_s"]]
        expected = [(window.start_s, window.end_s, window.score) for window in windows]
        for shown in (entry["windows"], parts):
            columns = [[float(w[name]) for w in shown] for name in ("start_s", "end_s", "score")]
            assert list(zip(*columns, strict=True)) == expected
    assert sum("█" in line for line in lines) > 2
    assert "plots next to o/out.csv: 2" in errors
    for name in ("a", "c"):
        root = ElementTree.parse(folder.parent / "o" / f"out - {name}.svg").getroot()
        paths = [path.get("class") for path in root.iter("{http://www.w3.org/2000/svg}path")]
        marks = [css for css in paths if css.startswith("marker")]
        assert marks == ["marker c0"] * len(windows) + ["marker c0 lowest"]


def test_json_says_what_made_it_and_of_which_file(folder, score, network):
    (folder / "broken.wav").write_bytes(b"RIFF")
    status, _, _ = score("recordings", "--json", "o.json", "--window", "1")
    assert status == 1
    written = json.loads((folder.parent / "o.json").read_text())
    made = written["made_by"]
    assert made["command"].startswith("asdf-antispoofing score ")
    assert "--json" in made["command"]
    assert (made["asdf"], made["torch"]) == (asdf.__version__, torch.__version__)
    assert made["network_sha256"] == hashlib.sha256(Path(network).read_bytes()).hexdigest()
    assert datetime.fromisoformat(made["date"]).utcoffset() == timedelta(0)
    computed = {"precision": "fp32", "engine": "packed" if is_available() else "plain"}
    heard = {"max_samples": 16000, "window": 1.0, "hop": 0.5, "trial": False, "parts": False}
    others = {"threshold": None, "device": "cpu", "speech_check": "off"}
    assert made["options"] == {**computed, **heard, **others}
    assert len(written["recordings"]) == 6
    for entry in written["recordings"]:
        content = (folder.parent / entry["path"]).read_bytes()
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()


def test_a_network_of_computed_voices_says_so(folder, score, tmp_path, caplog):
    demo = settings()
    demo.recipe.training_sets = ("demo-train", "demo-partial-train")
    path = write_small_network(tmp_path / "demo.pt", demo)
    trained = "this network was trained on the demo corpus, on computed voices"
    remark = f"{trained}: its scores say nothing about real recordings"
    assert asdf.Detector(path, "cpu").remark == remark
    caplog.clear()
    score("recordings/a.wav", network=str(path))
    assert [record.getMessage() for record in caplog.records] == [f"{path}: {remark}"]
    demo.recipe.training_sets = ("demo-train", "asvspoof19")
    assert asdf.Detector(write_small_network(tmp_path / "both.pt", demo), "cpu").remark == ""


def test_pictures_of_one_name_do_not_overwrite_each_other(folder, score):
    (folder / "more").mkdir()
    soundfile.write(folder / "more" / "a.wav", sound(6000, 9), 16000)
    score("recordings/a.wav", "recordings/more/a.wav", "--window", "1", "--csv", "out.csv")
    pictures = sorted(path.name for path in folder.parent.glob("*.svg"))
    assert pictures == ["out - a (2).svg", "out - a.svg"]


def test_the_longest_names_have_pictures_too(folder, score):
    """A title of 124 letters, of two bytes each."""
    soundfile.write(f"{'ж' * 124}.flac", sound(6000, 9), 16000)
    words = (f"{'ж' * 124}.flac", "--window", "1", "--csv", "out.csv")
    assert score(*words)[0] == 0
    assert Path(f"out - {'ж' * 97}.svg").is_file()
    assert not list(folder.parent.glob(".*"))


def test_a_calibrated_network_prints_llrs_and_verdicts(folder, score, expected, tmp_path):
    # So steep that no ratio is undecided: from -2 and 2 on.
    lower, higher = sorted(expected)[2:4]
    scale, middle = 4 / (higher - lower), (lower + higher) / 2
    calibration = Calibration(scale, -scale * middle, 0.5, 0.05, 1.0, 10.0)
    path = tmp_path / "calibrated.pt"
    write_small_network(path, settings(), calibration=calibration.content())
    words = ("recordings", "--csv", "out.csv", "--speech-check", "off")
    status, lines, errors = score(*words, network=str(path))
    assert status == 0
    llrs = [float(line.split("\t")[1]) for line in lines]
    ratios = scale * (np.array(expected) - middle)
    np.testing.assert_allclose(llrs, ratios, atol=1e-6 * scale + 5e-5)
    verdicts = ["bona fide" if llr >= 0.5 else "spoof" for llr in llrs]
    assert [line.split("\t")[2] for line in lines] == verdicts
    assert "an accepted spoof 10" in errors
    assert (folder.parent / "out.csv").read_text().startswith("path,start_s,end_s,llr,verdict")


def test_a_score_file_of_labelled_lists_has_the_networks_own_scores(
    folder, score, trials, tmp_path
):
    lines = [f"{name} {int(position < 2)}\n" for position, name in enumerate(NAMES)]
    (folder / "list.txt").write_text("".join(lines))
    calibration = Calibration(2.0, 1.0, 0.5).content()
    path = write_small_network(tmp_path / "c.pt", settings(), calibration=calibration)
    status, _, _ = score(folder / "list.txt", "--scores", "scores.txt", network=str(path))
    assert status == 0
    written = read_scores(folder.parent / "scores.txt")
    assert written.ids == NAMES and written.labels.tolist() == [1, 1, 0, 0, 0]
    np.testing.assert_allclose(written.scores, trials, atol=1e-6)
    length = json.loads((folder.parent / "scores.scored.json").read_text())
    assert length.pop("engine") == ("packed" if is_available() else "plain")
    assert length.pop("network") == network_digest(path)
    assert length.pop("trials") == 5
    content = (folder.parent / "scores.txt").read_bytes()
    assert length.pop("sha256") == {".txt": hashlib.sha256(content).hexdigest()}
    assert length == {"min_samples": 4000, "max_samples": 16000, "precision": "fp32"}
    (folder / "b.flac").write_text("no sound")
    status, _, errors = score(folder / "list.txt", "--scores", "other.txt")
    assert status == 1 and "other.txt was not written" in errors
    assert not (folder.parent / "other.txt").exists()


def test_a_folder_of_one_class_gets_a_score_file(folder, score):
    """Of the label that is stated, with trial scores, and paths that `evaluate --audio .` finds."""
    status, _, _ = score("recordings", "--label", "bona-fide", "--scores", "calls.txt")
    assert status == 0
    rows = [line.split() for line in (folder.parent / "calls.txt").read_text().splitlines()]
    names = sorted(str(path.relative_to(folder.parent)) for path in folder.rglob("*.*"))
    assert sorted(row[0] for row in rows) == names and {row[1] for row in rows} == {"1"}
    _, lines, _ = score("recordings", "--trial")
    shown = sorted(float(line.split("\t")[1]) for line in lines)
    assert shown == pytest.approx(sorted(float(row[2]) for row in rows), abs=1e-4)
    assert score("recordings", "--label", "spoof", "--scores", "fakes.txt")[0] == 0
    assert (folder.parent / "fakes.txt").read_text().count(" 0 ") == len(rows)


def test_a_label_that_a_list_contradicts_is_refused(folder, score):
    path = next(folder.rglob("*.wav")).relative_to(folder.parent)
    (folder.parent / "list.txt").write_text(f"{path} 0\n")
    status, _, errors = score("list.txt", "--label", "bona-fide", "--scores", "out.txt")
    assert status == 2 and f"a list gives {path} the other class" in errors
    assert score("list.txt", "--label", "spoof", "--scores", "out.txt")[0] == 0


def test_names_that_a_score_file_could_not_tell_apart_are_refused_before_any_work(folder, score):
    shutil.copytree(folder, "others")
    lists = [folder / "list.txt", Path("others/list.txt")]
    for path in lists:
        path.write_text("a.wav 1\n")
    status, lines, errors = score(*lists, "--scores", "out.txt")
    assert (status, lines) == (1, [])
    assert "1 of 2 utterances are named more than once: 'a.wav'. Check the list" in errors
    assert score(*lists)[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.wav",), "there is no file or folder missing.wav"),
        (("recordings", "--hop", "2"), "--hop needs --window S"),
        (("recordings", "--window", "1", "--hop", "2"), "the hop at most the window"),
        (("recordings/a.wav", "--scores", "out.txt"), "--scores needs the label of each recording"),
        (("recordings", "--csv", "a.csv", "--window", "0"), "must be positive"),
        (("recordings", "--csv", "a.csv", "--window", "2"), "hears 16,000 samples"),
        (("recordings", "--threshold", "nan"), "Give a finite number"),
        (("recordings", "--threshold=-inf"), "Give a finite number"),
        (("recordings", "--threads", "0"), "threads = 0"),
        (("recordings", "--network-folder", "nowhere"), "there is no folder nowhere"),
        (("recordings", "--csv", "-", "--json", "-"), "2 outputs go to standard output"),
    ],
)
def test_mistakes_end_with_2_before_any_work(folder, score, words, message):
    status, lines, errors = score(*words)
    assert (status, lines) == (2, [])
    assert message in errors
    assert not list(folder.parent.glob("*.csv"))


ALONE = [("list.txt",), ("-",), ("recordings/a.wav",), ("recordings/a.wav", "recordings/e.mp3")]
ALONE.append(("recordings", "recordings/e.mp3"))


@pytest.mark.parametrize(
    ("words", "network", "recordings"),
    [
        *((words, "small", words) for words in ALONE),
        (("net.pt", "recordings"), "net.pt", ("recordings",)),
        (("small", "recordings/a.wav", "-"), "small", ("recordings/a.wav", "-")),
        (("hub:org/name", "a.wav"), "hub:org/name", ("a.wav",)),
        (("exported", "a.wav"), "exported", ("a.wav",)),
        (("a.wav", "--csv", "-", "b.wav"), "small", ("a.wav", "b.wav")),
    ],
)
def test_without_a_network_it_is_the_shipped_one(folder, words, network, recordings):
    exported = folder.parent / "exported"
    exported.mkdir()
    (exported / "config.json").write_text("{}")
    args = name_network(COMMAND.read(words))
    assert (args.network, args.recordings) == (network, recordings)


@pytest.mark.parametrize("words", [["net.pt"], ["small"], ["hub:org/name"], ["a.wav", "net.pt"]])
def test_a_network_comes_before_recordings(folder, words):
    with pytest.raises(UsageError, match=f"{words[-1]} is a network, which comes before the reco"):
        name_network(COMMAND.read(words))


def test_full_length(folder, network, score):
    status, lines, errors = score("recordings/e.mp3", "--full-length")
    assert status == 0
    value = asdf.Detector(network, "cpu", full_length=True).score_trial(folder / "e.mp3")
    assert lines == [f"recordings/e.mp3\t{value:.4f}"]
    assert "longer than 1,000,000 samples (62.5 s)" in errors


def test_names_stay_one_field_and_no_formula(folder, score):
    """Names that are no text, hold tabs and ends of lines, or would be formulas of a table."""
    name, odd = os.fsdecode(b"\xff.wav"), "a\tb\nc.wav"
    for copy in (folder / name, folder / odd, "=cmd.wav"):
        shutil.copy(folder / "a.wav", copy)
    (folder / "list.txt").write_bytes(b"a.wav\n\xff.wav\nbad\xfe.wav\n")
    words = (folder / "list.txt", "=cmd.wav", folder / odd)
    status, lines, _ = score(*words, "--csv", "o.csv", "--json", "o.json")
    assert status == 1
    names = ["a.wav", r"\udcff.wav", r"bad\udcfe.wav", "=cmd.wav", r"a\tb\nc.wav"]
    assert [line.split("\t")[0].rpartition("/")[2] for line in lines] == names
    assert len({lines[index].split("\t")[1] for index in (0, 1, 3, 4)}) == 1
    assert lines[2].endswith("\terror")
    rows = list(csv.reader((folder.parent / "o.csv").open(encoding="utf-8")))
    assert [row[0].rpartition("/")[2] for row in rows[2:5]] == [*names[1:3], "'=cmd.wav"]
    written = json.loads((folder.parent / "o.json").read_text())
    assert written["recordings"][3]["path"] == "=cmd.wav"
