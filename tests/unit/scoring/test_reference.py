"""A detector with a reference: recordings, windows, streams, and the command."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import soundfile
import torch

from asdf import Detector
from asdf.audio import read_audio
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.commands import score
from asdf.errors import UsageError
from asdf.evaluation import read_scores
from asdf.networks import build_network
from asdf.scoring.detector_copies import copy_with
from asdf.settings.sections import Sections
from tests.unit.conftest import sound


def pair_settings() -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.CosinePairNetwork"
    settings.front_end.front_end_class = "lfcc"
    settings.back_end.back_end_class = "mlp"
    settings.network.min_evaluation_utterance_length_in_samples = 8000
    settings.network.max_evaluation_utterance_length_in_samples = 32000
    return settings


@pytest.fixture
def folder(tmp_path):
    """A network of pairs, and recordings of noise."""
    torch.manual_seed(0)
    settings = pair_settings()
    network = build_network(settings)
    write_network_file(tmp_path / "pairs.pt", NetworkFile.from_network(network, settings))
    for number, seconds in enumerate((1.0, 1.5, 3.0, 0.8)):
        waveform = sound(int(16000 * seconds), number)
        soundfile.write(tmp_path / f"{number}.wav", waveform, 16000)
    return tmp_path


def logit(folder, test: int, references: list[int], window: slice = slice(0, 32000)) -> float:
    """Return what the network gives for whole waveforms, (0.5 to 2 s) each by itself."""
    torch.manual_seed(0)
    network = build_network(pair_settings()).eval()
    with torch.inference_mode():
        waveforms = [read_audio(folder / f"{number}.wav")[:32000] for number in references]
        rows = [network.embed(torch.from_numpy(each)[None]) for each in waveforms]
        mean = torch.cat(rows).mean(dim=0, keepdim=True)
        heard = torch.from_numpy(read_audio(folder / f"{test}.wav")[window])[None]
        return float(network.compare(network.embed(heard), mean)[0, 1])


def test_a_score_is_that_of_the_two_recordings(folder):
    detector = Detector(folder / "pairs.pt", "cpu")
    assert detector.needs_reference
    alone = detector.score(folder / "0.wav", reference=folder / "1.wav")
    assert float(alone) == pytest.approx(logit(folder, 0, [1]), abs=1e-5)
    samples = soundfile.read(folder / "1.wav", dtype="float32")
    assert float(detector.score(folder / "0.wav", reference=samples)) == float(alone)
    several = detector.score(folder / "0.wav", reference=[folder / "1.wav", folder / "3.wav"])
    assert float(several) == pytest.approx(logit(folder, 0, [1, 3]), abs=1e-5)


def test_windows_streams_and_wholes_have_the_same_reference(folder):
    detector = Detector(folder / "pairs.pt", "cpu").with_reference(folder / "1.wav")
    assert not detector.needs_reference
    windows = detector.score_over_time(folder / "2.wav", 1.0, 1.0)
    expected = [logit(folder, 2, [1], slice(s, s + 16000)) for s in (0, 16000, 32000)]
    assert [window.score for window in windows] == pytest.approx(expected, abs=1e-5)
    stream = detector.stream(16000, 1.0, 1.0)
    streamed = [*stream.add(read_audio(folder / "2.wav"))]
    assert [window.score for window in streamed] == pytest.approx(expected, abs=1e-5)
    whole = detector.score_whole(folder / "2.wav")
    halves = [logit(folder, 2, [1], slice(0, 32000)), logit(folder, 2, [1], slice(16000, 48000))]
    assert whole.score == pytest.approx(np.mean(halves), abs=1e-5)


def test_a_pair_network_without_a_reference_says_what_to_give(folder):
    detector = Detector(folder / "pairs.pt", "cpu")
    with pytest.raises(
        UsageError, match=r"but there is none\. Pass one: Detector\.score\(recording, ref"
    ):
        detector.score(folder / "0.wav")
    assert detector.warm_up(0.5) is detector and detector.needs_reference
    with pytest.raises(UsageError, match="the list of references is empty"):
        detector.with_reference([])


def test_copies_have_the_reference(folder):
    detector = Detector(folder / "pairs.pt", "cpu").with_reference(folder / "1.wav")
    copied = pickle.loads(pickle.dumps(detector))
    assert float(copied.score(folder / "0.wav")) == float(detector.score(folder / "0.wav"))
    plain = copy_with(detector, engine="plain")
    assert plain.engine == "plain"
    assert float(plain.score(folder / "0.wav")) == pytest.approx(logit(folder, 0, [1]), abs=1e-5)


def test_a_detector_takes_no_reference(folder):
    with pytest.raises(UsageError, match="does not take a reference"):
        Detector(device="cpu").score(folder / "0.wav", reference=folder / "1.wav")


def test_the_command_scores_against_a_recording(folder, capsys):
    words = [str(folder / "pairs.pt"), str(folder / "0.wav"), "--trial"]
    json_path = folder / "out.json"
    reference = ["--reference", str(folder / "1.wav"), "--reference", str(folder / "3.wav")]
    assert score.main([*words, *reference, "--json", str(json_path)]) == 0
    document = json.loads(json_path.read_text())
    (recording,) = document["recordings"]
    assert recording["score"] == pytest.approx(logit(folder, 0, [1, 3]), abs=1e-5)
    assert "compared with" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--reference REF"):
        score.main(words)


def test_the_command_scores_lists_of_pairs(folder):
    list_path = folder / "pairs.csv"
    list_path.write_text(
        "path,label,reference\n0.wav,1,1.wav\n2.wav,0,3.wav\n0.wav,0,3\n3.wav,1,1.wav;2.wav\n"
    )
    output = folder / "scores.txt"
    words = [str(folder / "pairs.pt"), str(list_path), "--scores", str(output)]
    assert score.main(words) == 0
    scores = read_scores(output)
    assert list(scores.ids) == ["0.wav|1.wav", "2.wav|3.wav", "0.wav|3", "3.wav|1.wav;2.wav"]
    expected = [logit(folder, *pair) for pair in ((0, [1]), (2, [3]), (0, [3]), (3, [1, 2]))]
    assert scores.scores.tolist() == pytest.approx(expected, abs=1e-5)
    assert scores.labels.tolist() == [1, 0, 0, 1]


def test_a_detector_scores_lists_of_pairs_without_them_and_says_so(folder, capsys, network_file):
    list_path = folder / "pairs.csv"
    list_path.write_text("path,label,reference\n0.wav,1,1.wav\n0.wav,0,3.wav\n")
    output = folder / "scores.txt"
    assert score.main([str(network_file), str(list_path), "--scores", str(output)]) == 0
    assert "ignores the references in the list" in capsys.readouterr().err
    first, second = read_scores(output).scores
    assert first == second
