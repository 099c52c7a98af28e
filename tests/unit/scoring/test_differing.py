"""Recordings whose channels or sound tracks are not the same sound."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.commands.journal import stamp_of
from asdf.errors import UsageError
from asdf.evaluation import read_any_scores
from asdf.scoring.columns import UNDECIDED
from asdf.scoring.scored import MIXED, ChannelColumn, Scored
from tests.unit.audio import test_channels
from tests.unit.audio.test_channels import write_tracks
from tests.unit.conftest import write_small_network

RATE = 16000
SECONDS = 1.5
SAMPLES = round(SECONDS * RATE)
ONE, OTHER = test_channels.ONE[:SAMPLES], test_channels.OTHER[:SAMPLES]
SILENCE, HISS = np.zeros(SAMPLES), test_channels.HISS[:SAMPLES]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_network(tmp_path_factory.mktemp("network") / "net.pt")


def opened(network: Path, threshold: float | None = None) -> asdf.Detector:
    return asdf.Detector(network, "cpu", threads=1, threshold=threshold, parts=False)


@pytest.fixture(scope="module")
def between(network: Path) -> float:
    """A threshold between the scores of the two voices."""
    scores = [opened(network).score_whole(voice, RATE).score for voice in (ONE, OTHER)]
    assert None not in scores and scores[0] != scores[1]
    return float(np.mean(scores))


def write(path: Path, *channels: np.ndarray) -> Path:
    soundfile.write(path, np.stack(channels, axis=1), RATE)
    return path


def all_results(detector: asdf.Detector, path: Path) -> list[Scored]:
    """Return the result of a whole recording, in each way that gives one."""
    content = path.read_bytes()
    results = [detector.score_whole(value) for value in (path, content, io.BytesIO(content))]
    if path.suffix == ".wav":
        results.append(detector.score_whole(soundfile.read(path, dtype="float32")))
    return [*results, *detector.score_many([path, content], whole=True)]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["channel", "track"])
def test_two_voices(tmp_path: Path, network: Path, between: float, kind: str, order: int) -> None:
    """Whichever comes first, and however the recording comes."""
    voices = [ONE, OTHER][::order]
    if kind == "channel":
        path = write(tmp_path / "a.wav", *voices)
    else:
        path = write_tracks(tmp_path / "a.mkv", voices)
    detector = opened(network, between)
    alone = [detector.score_whole(voice, RATE) for voice in voices]
    assert {each.verdict for each in alone} == {"bona fide", "spoof"}
    for result in all_results(detector, path):
        assert result.verdict == MIXED
        assert result.score == pytest.approx(min(each.score for each in alone), abs=1e-6)
        assert result.seconds == pytest.approx(SECONDS)
        assert "not the same sound" in result.remark and "each is scored by itself" in result.remark
        channels = result.entry()["channels"]
        numbers = [0, 1] if kind == "channel" else [1, 2]
        assert [each[kind] for each in channels] == numbers
        for each, expected in zip(channels, alone, strict=True):
            assert each["score"] == pytest.approx(expected.score, abs=1e-6)
            assert each["verdict"] == expected.verdict
    trials = [float(detector.score_trial(voice, RATE)) for voice in voices]
    detector = opened(network, float(np.mean(trials)))
    scored = detector.score_trial(path)
    assert scored.verdict == MIXED
    of_channels = [each["score"] for each in scored.values["channels"].channels]
    assert of_channels == pytest.approx(trials, abs=1e-6)
    # A protocol's score, which lists have too, stays that of the mean, or of the first track.
    trial = next(iter(detector.score_many([path])))
    assert trial.verdict == MIXED
    heard = np.mean(voices, axis=0) if kind == "channel" else voices[0]
    assert trial.score == pytest.approx(float(detector.score_trial(heard, RATE)), abs=1e-6)
    assert float(detector.score_trial(path)) == trial.score


@pytest.mark.parametrize("threshold", [-1000.0, 1000.0])
def test_voices_of_one_verdict(tmp_path: Path, network: Path, threshold: float) -> None:
    path = write(tmp_path / "a.wav", ONE, OTHER)
    detector = opened(network, threshold)
    for result in (*all_results(detector, path), detector.score(path)):
        assert result.verdict == UNDECIDED


def test_without_a_threshold(tmp_path: Path, network: Path) -> None:
    result = opened(network).score_whole(write(tmp_path / "a.wav", ONE, OTHER))
    assert result.verdict is None and len(result.entry()["channels"]) == 2


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ((ONE, -ONE), "the channels cancel each other"),
        ((ONE, HISS / 10), "channel 1 lies"),
        ((ONE, -0.98 * ONE, 0.01 * ONE), "the channels cancel each other"),
    ],
)
def test_silence_is_no_remark_on_what_sounds(tmp_path, network, channels, why):
    path = write(tmp_path / "a.wav", *channels)
    detector = opened(network, -1000)
    for result in (*all_results(detector, path), detector.score(path)):
        assert result.verdict == UNDECIDED and result.judged
        assert why in result.remark and "digital silence" not in result.remark


def test_silent_channels_are_left_out(tmp_path: Path, network: Path) -> None:
    detector = opened(network, -1000)
    expected = detector.score_whole(write(tmp_path / "one.wav", ONE))
    for channels in ([ONE, SILENCE], [SILENCE, ONE], [SILENCE] * 7 + [ONE], [ONE, SILENCE + 0.1]):
        for result in all_results(detector, write(tmp_path / "a.wav", *channels)):
            assert result.score == pytest.approx(expected.score, abs=1e-6)
            assert (result.verdict, result.remark) == (expected.verdict, expected.remark)
    for result in all_results(detector, write(tmp_path / "a.wav", SILENCE, SILENCE)):
        assert result.verdict is None and result.remark.startswith("not judged: digital silence")


def test_what_is_not_judged_in_any_channel(tmp_path: Path, network: Path) -> None:
    path = write(tmp_path / "a.wav", ONE[8000:12000], -ONE[8000:12000])
    result = opened(network, 0).score_whole(path)
    assert result.verdict is None and "not judged: 0.25 s are too short" in result.remark


def test_the_outputs_of_score(tmp_path, network, between, capsys):
    paths = [write(tmp_path / "a.wav", ONE, OTHER), write(tmp_path / "b.wav", ONE, ONE)]
    words = ["score", network, *paths, "--threshold", between, "--no-parts", "--device", "cpu"]
    outputs = ["--csv", tmp_path / "o.csv", "--json", tmp_path / "o.json"]
    assert main([str(word) for word in (*words, *outputs)]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    names = [paths[0], f"{paths[0]}#channel=0", f"{paths[0]}#channel=1", paths[1]]
    assert [line[0] for line in lines] == list(map(str, names))
    verdicts = [line[2] for line in lines]
    assert verdicts[0] == MIXED and set(verdicts[1:3]) == {"bona fide", "spoof"}
    assert verdicts[3] == verdicts[1]
    rows = list(csv.DictReader((tmp_path / "o.csv").open()))
    assert [row["path"] for row in rows] == list(map(str, names))
    assert [row["verdict"] for row in rows] == verdicts
    assert rows[1]["score"] == rows[3]["score"]
    # Which are no trials: `evaluate` counts two.
    assert [row["start_s"] for row in rows] == ["", "0.0", "0.0", ""]
    scores = read_any_scores(tmp_path / "o.csv", {str(path): i for i, path in enumerate(paths)})
    assert scores.ids == list(map(str, paths))
    entries = json.loads((tmp_path / "o.json").read_text())["recordings"]
    assert [len(entry.get("channels", ())) for entry in entries] == [2, 0]


def test_a_journal_keeps_channels(tmp_path: Path, network: Path, between: float) -> None:
    """A command that goes on has verdicts by its own threshold."""
    path = write(tmp_path / "a.wav", ONE, OTHER)
    value = opened(network, between).score_whole(path).values["channels"]
    column = ChannelColumn(between)
    saved = json.loads(json.dumps(column.saved(value)))
    assert column.restored(saved) == value
    for threshold, verdict in ((-1000, "bona fide"), (1000, "spoof")):
        restored = ChannelColumn(threshold).restored(saved)
        assert {each["verdict"] for each in restored.channels} == {verdict}


def test_a_stream_of_differing_channels_is_undecided(network: Path, between: float) -> None:
    stereo = np.stack([ONE, OTHER], axis=1)
    for chunk in (160, 5000):
        stream = opened(network, between).stream(RATE, 0.5, 0.25)
        for start in range(0, SAMPLES, chunk):
            stream.add(stereo[start : start + chunk])
        stream.finish()
        assert stream.score is not None and stream.score.verdict == UNDECIDED
        assert "give each channel a stream of its own" in stream.score.remark
        assert "the channels are not the same sound" in stream.score.remark


@pytest.mark.parametrize("other", [ONE, 0.5 * ONE, SILENCE])
def test_a_stream_of_one_sound_has_its_verdict(network: Path, between: float, other) -> None:
    stream = opened(network, between).stream(RATE, 0.5, 0.25)
    stream.add(np.stack([ONE, other], axis=1))
    assert stream.score is not None and stream.score.verdict in ("bona fide", "spoof")
    assert "channel" not in stream.score.remark
    with pytest.raises(UsageError, match="of 2 channels continues with 3"):
        stream.add(np.zeros((80, 3), np.float32))


def test_a_speaker_has_the_scores_of_channels_that_differ(network: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "call.wav", ONE, OTHER)
    turns = "SPEAKER call 1 0.0 1.2 <NA> <NA> ann <NA>\n"
    (tmp_path / "call.rttm").write_text(turns)
    [ann] = opened(network, 0.0).score_speakers(path, tmp_path / "call.rttm")
    channels = ann.result.values[ChannelColumn.key].channels
    for each, voice in zip(channels, (ONE, OTHER), strict=True):
        expected = opened(network).score_whole(voice[: round(1.2 * RATE)], RATE).score
        assert each["score"] == pytest.approx(expected, abs=2e-4)
    assert [each["channel"] for each in channels] == [0, 1]
    assert "the channels are not the same sound" in ann.result.remark


def test_a_line_of_a_channel_can_be_scored_by_its_name(network, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(Path("call.wav"), ONE, OTHER)
    names = ["call.wav#channel=1", "call.wav#t=0.5,1.2&channel=0"]
    assert main(["score", str(network), *names, "--json", "out.json", "--device", "cpu"]) == 0
    scores = [each["score"] for each in json.loads(Path("out.json").read_text())["recordings"]]
    samples = soundfile.read("call.wav", dtype="float32")[0]
    parts = [samples[:, 1], samples[8000:19200, 0]]
    expected = [opened(network).score_whole(part, RATE).score for part in parts]
    assert scores == pytest.approx(expected, abs=1e-5)
    for name in ("call.wav#channel=x", "gone.wav#channel=1"):
        assert main(["score", str(network), name]) == 2
        assert f"there is no file or folder {name}" in capsys.readouterr().err
    assert stamp_of(names[0]) == stamp_of("call.wav") != stamp_of(".")
