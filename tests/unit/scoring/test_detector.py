"""The same numbers as stage 2, whatever the recordings come as."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.audio import audio_length, read_audio
from asdf.audio.speech import cut_to_speech
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.interchange import read_network
from asdf.metrics.calibration import Calibration
from asdf.networks import build_network
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.trials.lists import read_list
from tests.unit.conftest import list_scores, small_settings, sound, write_small_network

FIXTURES = Path(__file__).parents[2] / "fixtures" / "networks"
TESTS = Path(__file__).parents[2]


def stage_2(path: Path, folder: Path, precision: str = "fp32") -> dict[str, float]:
    """Scores of all recordings of `folder` by way of `score_list`."""
    network, _ = read_network(path)
    settings = asdf.Detector(path, "cpu").settings
    settings.computing.scoring_precision = precision
    names = sorted(file.name for file in folder.iterdir())
    (folder / "list.lst").write_text("".join(f"{name} 1\n" for name in names))
    utterances = read_list(folder / "list.lst", folder)
    waveforms = [cut_to_speech(read_audio(folder / name), settings.sad) for name in names]
    lengths = np.array([len(waveform) for waveform in waveforms])
    scores = list_scores(network, utterances, lengths, settings)
    (folder / "list.lst").unlink()
    return dict(zip(names, scores.tolist(), strict=True))


def variant(kind: str) -> Sections:
    if kind in ("AASIST_L", "SSL_AASIST", "SSL_SLS"):
        settings = small_settings(network_class=f"asdf.networks.{kind}")
        settings.back_end.sls_samples = 7000
        return settings
    settings = small_settings(score="difference" if kind == "difference" else "bona_fide")
    if kind in ("endpoint", "on"):
        settings.sad = replace(settings.sad, mode=kind, hangover_s=0.02, threshold_db=12.0)
    return settings


@pytest.mark.slow_but("endpoint")
@pytest.mark.parametrize(
    "kind", ["AASIST_L", "SSL_AASIST", "SSL_SLS", "difference", "endpoint", "on"]
)
def test_scores_are_those_of_a_score_list(tmp_path, recordings, kind):
    path = write_small_network(tmp_path / "network.pt", variant(kind))
    expected = stage_2(path, recordings)
    # Short, middle and long ones, of what the network hears.
    lengths = [audio_length(recordings / name) for name in ("b.flac", "a.wav", "e.mp3")]
    assert len(expected) == 5 and lengths[0] < 4000 < lengths[1] < 8000 < lengths[2]
    assert np.std(list(expected.values())) > 1e-3
    detector = asdf.Detector(path, device="cpu")
    assert detector.score_trial(recordings / "a.wav") == pytest.approx(expected["a.wav"], abs=1e-5)
    together = {result.path.name: result for result in detector.score_many(recordings.iterdir())}
    for name, score in expected.items():
        assert detector.score_trial(str(recordings / name)) == pytest.approx(score, abs=1e-5)
        assert together[name].score == pytest.approx(score, abs=1e-5)
        assert together[name].raw == together[name].score


@pytest.mark.usefixtures("bfloat16")
def test_scores_in_bf16_are_those_of_a_score_list_in_bf16(tmp_path, recordings):
    """Equal to the last bit in the same batches, to bf16's third digit alone; not as in fp32."""
    # Of raw AASIST, nothing is in bf16 on a CPU.
    settings = small_settings(network_class="asdf.networks.SSL_ASP")
    path = write_small_network(tmp_path / "network.pt", settings)
    expected = stage_2(path, recordings, "bf16")
    detector = asdf.Detector(path, device="cpu", precision="bf16")
    assert detector.precision == "bf16"
    together = {result.path.name: result for result in detector.score_many(recordings.iterdir())}
    in_full = stage_2(path, recordings)
    for name, score in expected.items():
        assert together[name].score == score
        assert detector.score_trial(recordings / name) == pytest.approx(score, abs=0.01)
        assert score != in_full[name] and score == pytest.approx(in_full[name], abs=0.1)


def test_a_precision_that_the_device_has_not_is_said(network_file, caplog, monkeypatch):
    monkeypatch.setattr(LOG, "propagate", True)
    assert asdf.Detector(network_file, "cpu", precision="tf32").precision == "fp32"
    assert caplog.messages == ["scoring in fp32: tf32 not used: it needs a GPU"]


@pytest.mark.slow_but("AASIST-L")
@pytest.mark.parametrize("name", ["AASIST-L", "AASIST"])
def test_published_aasist_gives_its_logits(tmp_path, request, name):
    """From a file, and from an array."""
    kind = name.replace("-", "_")
    folder = FIXTURES if kind == "AASIST_L" else request.getfixturevalue("shared") / "reference"
    case = np.load(folder / f"{name}.npz")
    lengths = (f"{end}_evaluation_utterance_length_in_samples" for end in ("min", "max"))
    settings = small_settings(
        network_class=f"asdf.networks.{kind}", **dict.fromkeys(lengths, 64600)
    )
    network = build_network(settings)
    load_detector_weights(network, folder / f"{name}.pth")
    write_network_file(tmp_path / "network.pt", NetworkFile.from_network(network, settings))
    detector = asdf.Detector(tmp_path / "network.pt", device="cpu")
    for waveform, logits in zip(case["waveforms"], case["logits"], strict=True):
        soundfile.write(tmp_path / "a.wav", waveform, 16000, subtype="FLOAT")
        assert detector.score_trial(tmp_path / "a.wav") == pytest.approx(logits[1], abs=1e-4)
        assert detector.score_trial(waveform, 16000) == pytest.approx(logits[1], abs=1e-4)


def test_broken_files_are_reported_and_the_rest_go_on(recordings, network_file):
    (recordings / "bad.wav").write_text("no sound")
    content = (recordings / "b.flac").read_bytes()
    (recordings / "cut.flac").write_bytes(content[: len(content) // 2])
    paths = [recordings / name for name in ("bad.wav", "a.wav", "cut.flac", "missing.wav", "c.WAV")]
    detector = asdf.Detector(network_file, "cpu")
    results = sorted(detector.score_many(paths), key=lambda result: result.index)
    assert [result.path for result in results] == paths
    for failed in (
        [bool(each.error) for each in results],
        [each.score is None for each in results],
    ):
        assert failed == [True, False, True, True, False]
    assert "not audio" in results[0].error
    assert "cannot be decoded to its end" in results[2].error
    assert "there is no file" in results[3].error
    assert results[1].score == pytest.approx(detector.score_trial(paths[1]), abs=1e-5)
    with pytest.raises(AsdfError, match="there is no file"):
        detector.score_trial(paths[3])


def test_known_files_give_no_result_and_change_no_batch(recordings, network_file, monkeypatch):
    monkeypatch.setattr("asdf.scoring.many._PORTION", 4)
    paths = [recordings / name for name in ("a.wav", "b.flac", "c.WAV", "a.wav") for _ in range(3)]
    detector = asdf.Detector(network_file, "cpu")
    compute, batches = detector._scorer.compute, []

    def recorded(waveforms_BT, *options):
        batches.append(waveforms_BT.shape)
        return compute(waveforms_BT, *options)

    monkeypatch.setattr(detector._scorer, "compute", recorded)
    expected = {result.index: result.score for result in detector.score_many(paths)}
    whole = batches.copy()
    batches.clear()
    # The first portion is known, and one of each of the two kinds in the second.
    known = {0, 1, 2, 3, 4, 6}
    rest = list(detector.score_many(paths, is_known=known.__contains__))
    remaining = {position: expected[position] for position in (5, 7, 8, 9, 10, 11)}
    assert {result.index: result.score for result in rest} == remaining
    first = len({paths[position] for position in range(4)})
    assert batches == whole[first:]
    assert list(detector.score_many([])) == []


def test_windows_score_as_recordings_of_their_own(tmp_path, network_file):
    samples = np.concatenate([sound(8000, 1), sound(8000, 2), sound(3000, 3)]).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    detector = asdf.Detector(network_file, "cpu")
    windows = detector.score_over_time(tmp_path / "a.wav", window_s=0.5, hop_s=0.25)
    spans = [(0.0, 0.5), (0.25, 0.75), (0.5, 1.0), (11000 / 16000, 19000 / 16000)]
    assert [(window.start_s, window.end_s) for window in windows] == spans
    for window in windows:
        cut = samples[round(window.start_s * 16000) : round(window.end_s * 16000)]
        assert window.score == pytest.approx(detector.score_trial(cut, 16000), abs=1e-5)
    short = detector.score_over_time(samples[:3000], 0.5, 0.25, sample_rate=16000)
    assert [(window.start_s, window.end_s) for window in short] == [(0.0, 3000 / 16000)]
    assert short[0].score == pytest.approx(detector.score_trial(samples[:3000], 16000), abs=1e-5)


def test_a_calibrated_network_gives_llrs(tmp_path, recordings, network_file):
    calibration = Calibration(2.0, -0.5, 0.25)
    path = write_small_network(tmp_path / "calibrated.pt", calibration=calibration.content())
    plain, detector = asdf.Detector(network_file, "cpu"), asdf.Detector(path, "cpu")
    assert plain.calibration is None
    assert detector.calibration == calibration
    score = plain.score_trial(recordings / "a.wav")
    assert detector.score_trial(recordings / "a.wav") == pytest.approx(2 * score - 0.5, abs=1e-9)
    (result,) = detector.score_many([recordings / "a.wav"])
    assert (result.raw, result.score) == pytest.approx((score, 2 * score - 0.5), abs=1e-5)
    assert result.compared == result.score
    window = detector.score_over_time(recordings / "a.wav", 0.5, 0.5)[0]
    assert window.score == pytest.approx(2 * score - 0.5, abs=1e-5)
    # Bounds limit the ratio, and not what thresholds are compared with.
    narrow = replace(calibration, lowest_llr=-1e-3, highest_llr=1e-3)
    path = write_small_network(tmp_path / "narrow.pt", calibration=narrow.content())
    (limited,) = asdf.Detector(path, "cpu").score_many([recordings / "a.wav"])
    assert abs(limited.score) == pytest.approx(1e-3)
    assert limited.compared == pytest.approx(result.score, abs=1e-5)


def test_a_network_class_of_ones_own(tmp_path, recordings):
    sys.path.insert(0, str(TESTS))
    try:
        settings = small_settings(network_class="small_networks.Plain")
        network = build_network(settings, TESTS)
        write_network_file(tmp_path / "own.pt", NetworkFile.from_network(network, settings))
        with pytest.raises(AsdfError, match=r"small_networks\.Plain"):
            asdf.Detector(tmp_path / "own.pt", "cpu")
        detector = asdf.Detector(tmp_path / "own.pt", "cpu", network_folder=TESTS)
    finally:
        sys.path.remove(str(TESTS))
    waveform = torch.from_numpy(read_audio(recordings / "a.wav"))[None]
    with torch.inference_mode():
        expected = network(waveform)[1][0, 1].item()
    assert detector.score_trial(recordings / "a.wav") == pytest.approx(expected, abs=1e-5)


def test_a_score_that_is_no_number_is_an_error(tmp_path, recordings):
    settings = small_settings()
    network = build_network(settings)
    with torch.no_grad():
        next(network.parameters()).fill_(torch.nan)
    write_network_file(tmp_path / "network.pt", NetworkFile.from_network(network, settings))
    detector = asdf.Detector(tmp_path / "network.pt", "cpu")
    with pytest.raises(AsdfError, match="not a finite number"):
        detector.score_trial(recordings / "a.wav")
    for result in detector.score_many(recordings.iterdir()):
        assert "not a finite number" in result.error


def test_mistakes(recordings, network_file):
    detector = asdf.Detector(network_file, "cpu")
    with pytest.raises(UsageError, match="a file states its own"):
        detector.score_trial(recordings / "a.wav", 16000)
    with pytest.raises(UsageError, match=r"recording \(bytes\): sample_rate is for samples"):
        detector.score_whole((recordings / "a.wav").read_bytes(), 16000)
    # 'mps' is on machines of Apple alone; 'meta' holds no numbers on any.
    apple = ["mps"] * (not torch.backends.mps.is_available())
    for device in ("abacus", "cuda:99", "meta", *apple):
        with pytest.raises(UsageError, match=f"no device '{device}'"):
            asdf.Detector(network_file, device)
    for window_s, hop_s in ((0, 1), (1, 0), (1, 2), (np.nan, 1), (np.inf, 1), (1, 1e-9)):
        with pytest.raises(UsageError, match="windows"):
            detector.score_over_time(recordings / "a.wav", window_s, hop_s)


def test_the_package_stays_cheap_to_import():
    """And a notebook completes what is not imported yet."""
    loaded = "'torch' in sys.modules, 'numpy' in sys.modules"
    names = "*[name for name in dir(asdf) if not name.startswith('_')]"
    code = f"import asdf, sys; print({names}, {loaded}, asdf.Detector.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Detector", "False", "False", "Detector"]
    with pytest.raises(AttributeError, match="Detektor"):
        _ = asdf.Detektor


def test_a_detector_is_called_as_a_function_and_names_itself(recordings, network_file):
    detector = asdf.Detector(network_file, "cpu", threshold=0.25)
    assert repr(detector) == f"<Detector {str(network_file)!r} on cpu, threshold 0.25>"
    assert "threshold none" in repr(asdf.Detector(network_file, "cpu"))
    called = detector(recordings / "a.wav")
    assert called == detector.score_trial(recordings / "a.wav")
    assert called.verdict == detector.score_trial(recordings / "a.wav").verdict
    # As numbers of JSON, which tell 1 from 1.0.
    assert repr(asdf.Detector(network_file, "cpu", threshold=1).threshold) == "1.0"
