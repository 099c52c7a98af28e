"""`python -m asdf score --segments`: spoofed parts as RTTM, JSON, text and pictures."""

import json
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.commands.score_results import Results
from asdf.commands.score_tables import frames_as_windows, svg_plot, text_plot
from asdf.networks import build_network
from asdf.scoring.scored import WindowScore
from asdf.segments import read_frame_scores, read_rttm, segments_from_scores, write_rttm
from asdf.settings.sections import Sections
from asdf.tasks.localisation.frame_scores import FrameScores
from tests.unit.conftest import sound, write_small_network

HOP_S = 0.01
SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    """A network with a frame-level head, which hears a second at once."""
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.front_end.front_end_class = "log_mel"
    settings.localisation.enabled = True
    settings.network.max_evaluation_utterance_length_in_samples = 16_000
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("framed") / "net.pt"
    write_network_file(path, NetworkFile.from_network(build_network(settings).eval(), settings))
    return str(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recording that the network hears at once, and one of three seconds."""
    (tmp_path / "recordings").mkdir()
    soundfile.write(tmp_path / "recordings" / "short.wav", sound(12_345), 16000)
    soundfile.write(tmp_path / "recordings" / "long.wav", sound(48_000, 1), 16000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def score(capsys, network):
    def run(*words, network=network):
        status = main(["score", network, *map(str, words), "--device", "cpu"])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err

    return run


def areas(root: ElementTree.Element, css: str) -> list[str | None]:
    """Return the outlines of areas of this class."""
    return paths(root, f"area c0 {css}")


def paths(root: ElementTree.Element, css: str) -> list[str | None]:
    return [path.get("d") for path in root.iter(f"{SPACE}path") if path.get("class") == css]


def test_all_outputs_have_the_same_parts(folder, score, network, capsys):
    detector = asdf.Detector(network, "cpu")
    scores = detector.score_whole("recordings/long.wav", frames=True).frames.scores
    # In the middle of the scores of frames, so that some of them are marked.
    threshold = float(np.median(scores))
    words = ("recordings", "--segments", "out/call.2", "--segment-threshold", threshold)
    status, lines, errors = score(*words, "--json", "table.json")
    assert status == 0, errors
    frames = {part.name: part for part in read_frame_scores("out/call.2.json")}
    marked = read_rttm("out/call.2.rttm")
    table = json.loads((folder / "table.json").read_text())["recordings"]
    for index, (stem, seconds) in enumerate((("long", 3.0), ("short", 12_345 / 16000))):
        name = f"recordings/{stem}.wav"
        expected = detector.score_whole(name, frames=True).frames
        # To the last bit, and over all of the recording.
        assert frames[name].scores.tolist() == expected.scores.tolist()
        assert (frames[name].hop_s, frames[name].duration_s) == (HOP_S, seconds)
        assert len(expected) == round(np.ceil(seconds / HOP_S))
        parts = segments_from_scores(expected.scores, HOP_S, threshold, duration_s=seconds)
        assert parts
        assert marked[stem].end_s == pytest.approx(seconds, abs=1e-6)
        assert np.ravel(marked[stem].spoofed) == pytest.approx(np.ravel(parts), abs=2e-6)
        assert table[index]["spoofed"] == [list(part) for part in parts]
        first = f"spoofed from to (s): {parts[0].start_s:.2f}-{parts[0].end_s:.2f}"
        assert first in lines[index]
    written = ["call.2 - long.svg", "call.2 - short.svg", "call.2.json", "call.2.rttm"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == written
    assert "with 2 plots" in errors
    # The picture has the waveform and the parts.
    root = ElementTree.fromstring((folder / "out" / "call.2 - long.svg").read_text())
    assert len(areas(root, "part")) == len(marked["long"].spoofed)
    assert len(areas(root, "sound")) == 1
    texts = [element.text for element in root.iter(f"{SPACE}text")]
    assert "frame score over time (minutes:seconds)" in texts
    # And localise reads what was written.
    write_rttm("reference.rttm", marked)
    words = ["localise", "out/call.2.json", "reference.rttm", "--threshold", str(threshold)]
    assert main([*words, "--json", "results.json"]) == 0
    capsys.readouterr()
    results = json.loads((folder / "results.json").read_text())
    # Held against the parts that it marked itself, nothing is missed and nothing is wrong.
    assert results["range_eer"]["rate"] == pytest.approx(0, abs=1e-5)
    assert results["agreement"]["iou"] == pytest.approx(1, abs=1e-5)
    assert results["points"][0]["agreement"]["f1"] == 1


def test_parts_are_drawn_where_they_are():
    frames = FrameScores(np.array([1, -1, -1, 2], np.float32), 1.0, 4.0)
    windows = frames_as_windows(frames)
    loudness = np.array([1.0, 0.5])
    picture = svg_plot(windows, "a.wav", "score", 0, loudness, frames.segments())
    root = ElementTree.fromstring(picture)
    # 4 s over 741 pixels from 45 on; the part is from 1 s to 3 s.
    (part,) = areas(root, "part")
    assert part == "M230.2,198.0L600.8,198.0L600.8,26.0L230.2,26.0Z"
    # Around the middle at 112, 86 pixels high where it is loudest.
    (sound,) = areas(root, "sound")
    assert sound == "M230.2,26.0L600.8,69.0L600.8,155.0L230.2,198.0Z"


def test_a_long_recording_is_drawn_by_its_lowest_frames():
    scores = np.ones(100_000, np.float32)
    scores[54_321] = -3
    windows = frames_as_windows(FrameScores(scores, 0.02, 1999.99))
    assert len(windows) == 724
    assert min(window.score for window in windows) == -3
    assert windows[0].start_s == 0 and windows[-1].end_s == 1999.99
    for before, after in pairwise(windows):
        assert before.end_s == pytest.approx(after.start_s)


@pytest.fixture
def stopped(score, monkeypatch):
    """Run the command until Ctrl-C after the last recording, before the outputs are written."""

    def stop(*_):
        raise KeyboardInterrupt

    def run(*words):
        with monkeypatch.context() as patch:
            patch.setattr(Results, "finish", stop)
            assert score(*words)[0] == 130

    return run


def test_stopped_work_goes_on_to_the_same_bytes(folder, score, stopped):
    words = ("recordings", "--segments", "call")
    assert score(*words)[0] == 0
    whole = [(folder / name).read_bytes() for name in ("call.rttm", "call.json")]
    stopped(*words)
    assert (folder / ".call.rttm.progress").is_file()
    status, _, errors = score(*words)
    assert status == 0 and "2 of 2 recordings were scored before" in errors
    assert [(folder / name).read_bytes() for name in ("call.rttm", "call.json")] == whole
    assert not (folder / ".call.rttm.progress").exists()


def test_results_without_frames_are_not_taken_for_some_with(folder, score, stopped):
    stopped("recordings", "--csv", "table.csv")
    status, _, errors = score("recordings", "--csv", "table.csv", "--segments", "call")
    assert status == 0 and "starting again" in errors
    assert set(read_rttm("call.rttm")) == {"long", "short"}


def test_without_a_frame_level_head_it_says_what_to_do(folder, score, tmp_path):
    plain = write_small_network(tmp_path / "plain.pt")
    status, _, errors = score("recordings", "--segments", "call", network=str(plain))
    assert status == 2
    assert "localisation.enabled = True" in errors and "--window" in errors
    assert not list(folder.glob("*call*"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--segments", "-"], "cannot go to standard output"),
        (["--segments", "call.rttm", "--json", "call.json"], "as an input or another output"),
        (["--segments", "call", "--segment-threshold", "nan"], "finite number"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(folder, score, words, reason):
    status, _, errors = score("recordings", *words)
    assert status == 2 and reason in errors


def test_parts_of_recordings_of_one_name_are_told_apart_by_their_paths(folder, score):
    (folder / "other").mkdir()
    soundfile.write(folder / "other" / "short.wav", sound(9000, 3), 16000)
    # In a folder the files are called segments.
    (folder / "results").mkdir()
    assert score("recordings/short.wav", "other/short.wav", "--segments", "results")[0] == 0
    names = list(read_rttm("results/segments.rttm"))
    assert names == ["recordings/short.wav", "other/short.wav"]


def windows(*scores: float) -> list[WindowScore]:
    return [
        WindowScore(2.0 * position, 2.0 * position + 4, score)
        for position, score in enumerate(scores)
    ]


def test_text_plot():
    assert text_plot(windows(0, 3, 6)).splitlines() == [
        "       6.00 |             ██████",
        "            |             ██████",
        "            |             ██████",
        "            |       ████████████",
        "            |       ████████████",
        "       0.00 | ▁▁▁▁▁▁████████████",
        "              0:00          0:08",
    ]

    rows = text_plot(windows(0, 1, 6), threshold=5.5).splitlines()
    assert rows[0].endswith("| ············██████")
    assert "·" not in "".join(rows[1:])
    # Equal scores have a range.
    assert "1.50" in text_plot(windows(0.5)) and "0:04" in text_plot(windows(0.5))


def test_a_short_dip_shows_among_many_windows():
    scores = [1.0] * 5000
    scores[1234] = -8.0
    rows = text_plot(windows(*scores)).splitlines()
    assert len(rows[0]) <= 80
    assert rows[0].count(" ", rows[0].index("|") + 2) == 1
    assert rows[-1].endswith("166:42")


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_svg_plot(threshold):
    content = svg_plot(windows(-1, 2, 3), 'a<b>&"\x07.wav', "LLR", threshold)
    root = ElementTree.fromstring(content)
    # 8 s over 741 points from 45 on, windows at 2, 4 and 6 s; 172 points high, scores from 3 to -1.
    assert paths(root, "line c0") == ["M230.2,198.0L415.5,69.0L600.8,26.0"]
    texts = [element.text for element in root.iter(f"{SPACE}text")]
    assert 'a<b>&"\\x07.wav' in texts
    assert "LLR over time (minutes:seconds)" in texts
    assert {"−1", "0", "1", "2", "3", "0:00", "0:05"} <= set(texts)
    dashed = paths(root, "line c0 threshold")
    assert dashed == ([] if threshold is None else ["M45.0,133.5L786.0,133.5"])


def test_the_lowest_window_and_the_threshold_are_named_below_the_axes_and_cover_no_curve():
    root = ElementTree.fromstring(svg_plot(windows(2, -1.25, 3), "a.wav", "score", 0.5))
    texts = {element.text: element for element in root.iter(f"{SPACE}text")}
    # The second of three windows of 4 s every 2 s.
    for words in ("lowest: -1.25, 0:02 to 0:06", "threshold 0.5"):
        assert float(texts[words].get("y")) > 240
    assert "score (higher: more bona fide)" in texts
    marks = [p for p in root.iter(f"{SPACE}path") if p.get("class") == "marker c0 lowest"]
    # The second window, whose middle is at 4 of 8 s, at the bottom of the plot.
    assert [mark.get("transform") for mark in marks] == ["translate(415.5,198.0)"]
    assert [mark.findtext(f"{SPACE}title") for mark in marks] == ["-1.25, 0:02 to 0:06"]
    for text in texts.values():
        # Letters are 12 pixels high; the axes are from 26 to 198, and from 45 on.
        if text.get("x") is None:
            continue
        beside = float(text.get("x")) <= 45 and text.get("text-anchor") == "end"
        assert beside or not 16 < float(text.get("y")) < 210, text.text
        # A white rim would cover what it lies on.
        assert text.get("stroke") is None
    # Of equal scores, the earliest.
    assert "lowest: -1.25, 0:02 to 0:06" in svg_plot(windows(2, -1.25, 3, -1.25), "", "score")
