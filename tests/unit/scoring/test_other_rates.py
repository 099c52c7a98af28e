"""A network of another rate, or of chosen channels, scored as it was trained: by its file alone."""

import io
import json
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torchaudio.functional import resample

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.data.lengths import measure_lengths
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.evaluation import write_scores
from asdf.extras.service.service import Asked, Slot
from asdf.extras.service.uploads import Upload, Wait
from asdf.networks import build_network
from asdf.settings import Sections
from asdf.trials.trial_list import TrialList
from tests.extras.service.conftest import LIMITS, running
from tests.unit.conftest import list_scores

STEREO = '''
import torch
from asdf.networks import DetectorNetwork


class Sides(DetectorNetwork):
    """How loud the channels are, and their difference."""

    waveform_channels = 2

    def __init__(self, settings):
        super().__init__(settings)
        self.output = torch.nn.Linear(3, 2)

    def forward(self, waveforms_BCT):
        left_BT, right_BT = waveforms_BCT.unbind(dim=1)
        parts = [left_BT, right_BT, left_BT - right_BT]
        loudness_B3 = torch.stack([part.square().mean(dim=1) for part in parts], dim=1)
        return loudness_B3, self.output(loudness_B3)
'''


def sections(rate: int, channels: Any = "mean") -> Sections:
    settings = Sections()
    settings.audio.sample_rate = rate
    settings.audio.channels = channels
    network = settings.network
    network.network_class = "asdf.networks.ComposedDetector"
    network.min_evaluation_utterance_length_in_samples = rate // 2
    network.max_evaluation_utterance_length_in_samples = 2 * rate
    settings.front_end.front_end_class = "log_mel"
    settings.back_end.back_end_class = "mlp"
    return settings


def saved(path: Path, settings: Sections, folder: Path | None = None) -> torch.nn.Module:
    torch.manual_seed(0)
    network = build_network(settings, folder).eval()
    write_network_file(path, NetworkFile.from_network(network, settings))
    return network


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 24 kHz."""
    path = tmp_path_factory.mktemp("rate") / "network.pt"
    saved(path, sections(24_000))
    return path


@pytest.fixture(scope="module")
def detector(network: Path) -> asdf.Detector:
    return asdf.Detector(network, "cpu")


def saved_stereo(folder: Path, rate: int, monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """Save a network of two channels as stereo.pt."""
    monkeypatch.delitem(sys.modules, "my_sides", raising=False)
    (folder / "my_sides.py").write_text(STEREO)
    settings = sections(rate, "all")
    settings.network.network_class = "my_sides.Sides"
    settings.front_end.front_end_class = settings.back_end.back_end_class = None
    return saved(folder / "stereo.pt", settings, folder)


def speech(rate: int, seconds: float = 1.5) -> np.ndarray:
    times = np.arange(round(rate * seconds)) / rate
    tones = [np.sin(2 * np.pi * hertz * times) / hertz for hertz in (150, 300, 700, 1900, 3100)]
    return (30 * np.sum(tones, axis=0) * np.hanning(len(times)) / 2).astype(np.float32)


@pytest.mark.parametrize("stated", [16_000, 24_000, 48_000])
def test_files_of_any_rate_get_the_score_of_the_network_s_own(tmp_path: Path, stated: int) -> None:
    settings = sections(24_000)
    network = saved(tmp_path / "network.pt", settings)
    detector = asdf.Detector(tmp_path / "network.pt", "cpu")
    assert detector.sample_rate == 24_000 and detector.length.sample_rate == 24_000
    waveform = speech(stated)
    soundfile.write(tmp_path / "x.wav", waveform, stated, subtype="FLOAT")
    # By hand: torchaudio's filter, then the network.
    heard_T = torch.from_numpy(waveform)
    if stated != 24_000:
        heard_T = resample(heard_T, stated, 24_000)[: round(1.5 * 24_000)]
    with torch.no_grad():
        expected = float(network(heard_T[None])[1][0, 1])
    score = detector.score_trial(tmp_path / "x.wav")
    assert float(score) == pytest.approx(expected, abs=1e-5)
    assert score.seconds == pytest.approx(1.5) and score.seconds_scored == pytest.approx(1.5)
    # An array is what its file is, and a list is scored like it.
    assert detector.score_trial(waveform, stated) == pytest.approx(expected, abs=1e-5)
    trials = TrialList(["x.wav"], np.array([1], np.int8), name="one", folder=tmp_path)
    lengths = measure_lengths(trials, settings.sad, tmp_path, World(), audio=settings.audio)
    assert lengths.tolist() == [36_000]
    (listed,) = list_scores(network, trials, lengths, settings)
    assert listed == pytest.approx(expected, abs=1e-5)


def test_windows_and_streams_are_at_the_network_s_rate(detector: asdf.Detector) -> None:
    waveform = speech(48_000, 5.0)
    windows = detector.score_over_time(waveform, 1.0, 0.5, 48_000)
    assert [window.start_s for window in windows] == [0.5 * index for index in range(9)]
    for window in windows:
        part = waveform[round(window.start_s * 48_000) : round(window.end_s * 48_000)]
        assert window.end_s - window.start_s == 1.0
        # But for the filter at the cuts.
        assert window.score == pytest.approx(float(detector.score_trial(part, 48_000)), abs=0.02)
    stream = detector.stream(48_000, 1.0, 0.5)
    streamed = []
    for start in range(0, len(waveform), 7001):
        streamed += stream.add(waveform[start : start + 7001])
    streamed = [window.score for window in (*streamed, *stream.finish())]
    assert streamed == pytest.approx([window.score for window in windows], abs=1e-5)
    whole = detector.score_whole(waveform, 48_000)
    assert whole.seconds == pytest.approx(5.0) and whole.windows == 3


def test_a_network_file_of_16_khz_is_what_it_was(tmp_path: Path) -> None:
    """Without the section, as files that were written before: 16 kHz and the mean."""
    settings = sections(16_000)
    network = saved(tmp_path / "network.pt", settings)
    file = NetworkFile.from_network(network, settings)
    assert file.settings is not None
    del file.settings["audio"]
    write_network_file(tmp_path / "old.pt", file)
    new, old = (asdf.Detector(tmp_path / name, "cpu") for name in ("network.pt", "old.pt"))
    assert old.sample_rate == 16_000 and old.settings.audio.is_usual
    both = np.stack([speech(44_100), 0.3 * speech(44_100)], axis=1)
    assert new.score_trial(both, 44_100) == old.score_trial(both, 44_100)
    assert old.length.record() == {"min_samples": 8000, "max_samples": 32_000}


def test_a_chosen_channel_is_heard_alone(tmp_path: Path) -> None:
    network = saved(tmp_path / "second.pt", sections(16_000, 1))
    detector = asdf.Detector(tmp_path / "second.pt", "cpu")
    left, right = 0.1 * speech(16_000), speech(16_000)
    with torch.no_grad():
        expected = float(network(torch.from_numpy(right)[None])[1][0, 1])
    soundfile.write(tmp_path / "x.wav", np.stack([left, right], 1), 16_000, subtype="FLOAT")
    assert detector.score_trial(tmp_path / "x.wav") == pytest.approx(expected, abs=1e-5)
    for array in (np.stack([left, right], 1), np.stack([left, right])):
        assert detector.score_trial(array, 16_000) == pytest.approx(expected, abs=1e-5)
    stream = detector.stream(16_000, 1.0, 1.0)
    stream.add(np.stack([left, right], 1))
    stream.finish()
    assert stream.score is not None
    for mono in (left, left[:, None]):
        with pytest.raises(AsdfError, match=r"has one channel, 0, but audio.channels = 1"):
            detector.score_trial(mono, 16_000)


def test_all_channels_reach_a_network_that_takes_them(tmp_path, monkeypatch):
    network = saved_stereo(tmp_path, 24_000, monkeypatch)
    detector = asdf.Detector(tmp_path / "stereo.pt", "cpu", tmp_path)
    both = np.stack([speech(24_000), 0.3 * speech(24_000)], 1)
    with torch.no_grad():
        expected = float(network(torch.from_numpy(both.T.copy())[None])[1][0, 1])
    soundfile.write(tmp_path / "x.wav", both, 24_000, subtype="FLOAT")
    assert detector.score_trial(tmp_path / "x.wav") == pytest.approx(expected, abs=1e-6)
    assert detector.score_trial(both.T, 24_000) == pytest.approx(expected, abs=1e-6)
    assert detector.warm_up(0.5) is detector
    assert detector.score_whole(np.tile(both, (2, 1)), 24_000).windows == 2
    stream = detector.stream(24_000, 1.0, 1.0)
    for start in range(0, len(both), 999):
        stream.add(both[start : start + 999])
    stream.finish()
    first = detector.score_trial(both[:24_000], 24_000)
    windows = detector.score_over_time(both, 1.0, 1.0, 24_000)
    assert windows[0].score == pytest.approx(float(first), abs=1e-6)
    with pytest.raises(AsdfError, match=r"has 1 channel, but the network takes 2"):
        detector.score_trial(speech(24_000), 24_000)


def test_what_knows_16_khz_alone_refuses_by_name(detector: asdf.Detector) -> None:
    from asdf.extras.forensic.why.explaining import explain
    from asdf.extras.forensic.why.explanation import Options

    with pytest.raises(UsageError, match=r"An explanation of a score is made for .* 16 kHz"):
        explain(detector, speech(24_000), 24_000, options=Options())


def test_full_length_is_as_many_seconds_at_any_rate(network: Path) -> None:
    length = asdf.Detector(network, "cpu", full_length=True).length
    samples = {"min_samples": 24_000, "max_samples": 1_500_000}
    assert length.record() == {**samples, "sample_rate": 24_000}
    assert length.describe() == "whole, up to 62.5 s"


def test_speakers_are_heard_at_the_network_s_rate(detector: asdf.Detector, tmp_path: Path) -> None:
    """Each as a recording of what is said alone: from 0 to 2 s, and from 3 to 5 s."""
    waveform = speech(24_000, 5.0)
    turns = "SPEAKER x 1 {} 2.0 <NA> <NA> {} <NA> <NA>\n"
    (tmp_path / "x.rttm").write_text(turns.format("0.0", "a") + turns.format("3.0", "b"))
    soundfile.write(tmp_path / "x.wav", waveform, 24_000, subtype="FLOAT")
    results = detector.score_speakers(tmp_path / "x.wav", tmp_path / "x.rttm")
    for result, first in zip(results, (0, 72_000), strict=True):
        alone = detector.score_whole(waveform[first : first + 48_000], 24_000)
        assert result.result.score == pytest.approx(alone.score, abs=1e-5)
        assert result.result.seconds == pytest.approx(2.0)


def test_networks_that_hear_otherwise_are_not_fused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    words = ["fuse"]
    for rate in (16_000, 24_000):
        saved(tmp_path / f"{rate}.pt", sections(rate))
        scores = tmp_path / f"{rate}.txt"
        write_scores(scores, list(map(str, range(60))), labels, rng.normal(size=60) + labels)
        words.append(str(scores))
    words += ["--replicates", "0", "--out", str(tmp_path / "fused.json")]
    networks = [str(tmp_path / "16000.pt"), str(tmp_path / "24000.pt")]
    assert main([*words, "--networks", *networks]) == 0
    with pytest.raises(AsdfError, match=r"do not hear the same .*; at 24,000 Hz"):
        asdf.Detector(tmp_path / "fused.json", "cpu")


@pytest.fixture
def stereo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network of two channels, at 16 kHz."""
    saved_stereo(tmp_path, 16_000, monkeypatch)
    return tmp_path / "stereo.pt"


def refusal_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([*map(str, words)]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("layout", ["transformers", "aasist", "df_arena"])
def test_layouts_that_state_no_rate_refuse_others(network, tmp_path, capsys, layout) -> None:
    message = refusal_of(capsys, "export", network, tmp_path / "out", "--format", layout)
    assert f"The layout {layout} is made for networks that hear 16 kHz and the mean" in message
    assert "hears recordings at 24,000 Hz, the mean of the channels" in message


@pytest.mark.parametrize("layout", ["onnx", "torchscript"])
def test_graphs_of_several_channels_are_refused(stereo, tmp_path, capsys, layout) -> None:
    words = ("--format", layout, "--network-folder", tmp_path)
    message = refusal_of(capsys, "export", stereo, tmp_path / "out", *words)
    assert f"uses all channels of a recording, but the input of {layout} is" in message


@pytest.mark.slow
def test_a_graph_states_its_rate(network, tmp_path, capsys) -> None:
    words = ["export", str(network), str(tmp_path / "out.ts"), "--format", "torchscript"]
    assert main([*words, "--samples", "24000"]) == 0
    assert "takes waveforms (batch, 24000) at 24 kHz" in capsys.readouterr().out


def test_measurements_on_copies_are_of_16_khz(network, tmp_path, capsys) -> None:
    lines = []
    for index in range(4):
        soundfile.write(tmp_path / f"{index}.wav", speech(24_000, 0.6), 24_000)
        lines.append(f"{index}.wav {index % 2}")
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    words = ("robustness", network, tmp_path / "list.txt", "--output", tmp_path / "out")
    assert "on changed copies is made for networks that hear 16 kHz" in refusal_of(capsys, *words)


def test_score_reads_at_the_network_s_rate(network, detector, tmp_path) -> None:
    soundfile.write(tmp_path / "x.wav", speech(48_000), 48_000, subtype="FLOAT")
    words = [str(network), str(tmp_path / "x.wav"), "--device", "cpu"]
    assert main(["score", *words, "--json", str(tmp_path / "x.json")]) == 0
    document = json.loads((tmp_path / "x.json").read_text())
    expected = float(detector.score_trial(tmp_path / "x.wav"))
    assert document["recordings"][0]["score"] == pytest.approx(expected, abs=1e-4)
    assert "48,000 samples at 24 kHz (2 s)" in document["scores"]


@pytest.mark.parametrize(("window", "status"), [(2.0, 0), (2.5, 2)])
def test_windows_of_score_are_held_against_the_network_s_rate(
    network, tmp_path, capsys, window, status
) -> None:
    """Before anything is scored: 2 s are 48,000 samples."""
    soundfile.write(tmp_path / "a.wav", np.zeros(5 * 24_000), 24_000)
    words = [str(network), str(tmp_path / "a.wav"), "--window", str(window), "--device", "cpu"]
    assert main(["score", *words]) == status
    refusal = "windows of 2.5 s: this network hears 48,000 samples (2 s)"
    assert (refusal in capsys.readouterr().err) == (status == 2)


def test_the_service_hears_what_the_detector_hears(network, stereo, tmp_path) -> None:
    mono = speech(48_000, 5.0)
    both = np.stack([mono, 0.3 * mono], axis=1)
    for path, samples in ((network, mono), (stereo, both)):
        detector = asdf.Detector(path, "cpu", tmp_path)
        content = io.BytesIO()
        soundfile.write(content, samples, 48_000, format="WAV", subtype="FLOAT")
        expected = detector.score_whole(samples, 48_000)
        with running(detector, LIMITS) as served:
            answer = served.score(content.getvalue(), "?window=1&hop=1&outline=10")
            assert answer.status == 200, answer.content
            (result,) = answer.json["recordings"]
        assert result["score"] == pytest.approx(expected.score, abs=1e-4)
        assert result["seconds"] == pytest.approx(5.0)
        assert [window["start_s"] for window in result["windows"]] == [0, 1, 2, 3, 4]


def test_the_service_hears_speakers_of_a_chosen_channel(tmp_path) -> None:
    saved(tmp_path / "second.pt", sections(24_000, 1))
    detector = asdf.Detector(tmp_path / "second.pt", "cpu")
    both = np.stack([0.1 * speech(24_000, 5.0), speech(24_000, 5.0)], axis=1)
    soundfile.write(tmp_path / "call.wav", both, 24_000, subtype="FLOAT")
    (tmp_path / "call.rttm").write_text("SPEAKER call 1 1.0 2.0 <NA> <NA> a <NA> <NA>\n")
    (expected,) = detector.score_speakers(tmp_path / "call.wav", tmp_path / "call.rttm")
    content, turns = ((tmp_path / name).read_bytes() for name in ("call.wav", "call.rttm"))
    upload = Upload(content, "call.wav", turns)
    with running(detector, LIMITS) as served:
        wait = Wait(time.monotonic() + 60, Event())
        decoded = served.service._decode(upload, Asked(), wait, Slot())
    ((speaker, heard),) = decoded.speakers
    assert speaker.name == "a" and heard is not None and heard.pieces.total == 48_000
    windows = detector.pipeline.score(heard.pieces.all)
    scored, _ = detector.pipeline.conclude(heard.pieces, windows, "call.wav")
    assert scored.score == pytest.approx(expected.result.score, abs=1e-5)


def test_what_is_no_speech_is_not_judged_at_any_rate(network) -> None:
    detector = asdf.Detector(network, "cpu", threshold=0.0)
    times = np.arange(3 * 48_000) / 48_000
    tone = (0.3 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)
    assert "no speech found" in detector.score_trial(tone, 48_000).remark
    [scored] = detector.score_many([(tone, 48_000)], whole=True)
    assert "no speech found" in scored.remark and scored.verdict is None
    # A protocol judges every trial.
    [trial] = detector.score_many([(tone, 48_000)])
    assert trial.judged and trial.verdict is not None
    for whole, has_speech in ((True, False), (False, True)):
        [piece, *_] = detector.pipeline.cut(tone, whole).scored
        assert piece.has_speech == has_speech
