"""A network that traces sources says so wherever it scores; others score as ever."""

from pathlib import Path

import numpy as np
import pytest
import torch

from asdf import Detector
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.scoring.score_list import build_list_scorer, score_list, score_with_extras
from asdf.scoring.whole_recording import Tally, Window
from asdf.settings.sections import Sections
from asdf.tasks.tracing.source_scores import SourceColumn, name_sources
from asdf.tasks.tracing.task import build_source_term
from asdf.trials.trial_list import TrialList
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Plain

TESTS = Path(__file__).parents[2]
SHORT = 6000
LENGTHS = [SHORT, 7000, SHORT, 20000]
TRAINED = TrialList(
    list("abcd"), np.array([0, 1, 0, 0]), columns={"attack": ["A02", "-", "A01", "A02"]}
)


def settings_of() -> Sections:
    settings = Sections()
    settings.network.network_class = "small_networks.Plain"
    settings.network.train_clip_size = 400
    settings.network.min_evaluation_utterance_length_in_samples = 400
    settings.network.max_evaluation_utterance_length_in_samples = 10000
    settings.computing.network_dataloader_workers = 0
    settings.source.column = "attack"
    return settings


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Plain]:
    """A network file and its network, which traces two attacks."""
    settings = settings_of()
    torch.manual_seed(0)
    network = Plain(settings).eval()
    build_source_term(network, TRAINED, settings)
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    return tmp_path / "net.pt", network


def expected(network: Plain, waveform: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        logits = network(torch.from_numpy(waveform)[None]).extras["sources"]
    return logits.double().log_softmax(1)[0].numpy()


def test_a_detector_names_the_sources(written) -> None:
    path, network = written
    detector = Detector(path, device="cpu", network_folder=TESTS)
    assert detector.source_classes.names == ("A01", "A02")
    waveforms = [waveform.astype(np.float32) for waveform in noise_waveforms(LENGTHS)]
    one = detector.score_trial(waveforms[0], 16000)
    logs = expected(network, waveforms[0])
    assert list(one.sources.log_probabilities) == ["A01", "A02"]
    np.testing.assert_allclose(list(one.sources.log_probabilities.values()), logs, atol=1e-5)
    assert one.sources.best == ("A01", "A02")[logs.argmax()]
    many = list(detector.score_many([(waveform, 16000) for waveform in waveforms]))
    assert sorted(result.index for result in many) == [0, 1, 2, 3]
    for result in many:
        logs = expected(network, waveforms[result.index][:10000])
        values = list(result.sources.log_probabilities.values())
        np.testing.assert_allclose(values, logs, atol=1e-5)
        assert result.entry()["source"] == result.sources.best
        assert sum(result.entry()["sources"].values()) == pytest.approx(1)
    whole = detector.score_whole(waveforms[3], 16000)
    with torch.no_grad():
        halves = torch.from_numpy(waveforms[3]).reshape(2, 10000)
        mean = network(halves).extras["sources"].mean(0).log_softmax(0)
    values = list(whole.sources.log_probabilities.values())
    np.testing.assert_allclose(values, mean.numpy(), atol=1e-5)


def test_windows_streams_and_the_service_name_them_too(written) -> None:
    path, network = written
    detector = Detector(path, device="cpu", network_folder=TESTS)
    waveform = noise_waveforms(LENGTHS)[3].astype(np.float32)
    windows = detector.score_over_time(waveform, 0.625, 0.625, 16000)
    assert len(windows) == 2
    for index, window in enumerate(windows):
        logs = expected(network, waveform[10000 * index : 10000 * (index + 1)])
        values = list(window.extras["sources"].log_probabilities.values())
        np.testing.assert_allclose(values, logs, atol=1e-5)
        times = {"start_s": 0.625 * index, "end_s": 0.625 * (index + 1)}
        assert window.entry() == {**times, "score": window.score}
    whole = detector.score_whole(waveform, 16000).sources
    stream = detector.stream(16000, 0.625, 0.625)
    for chunk in np.split(waveform, 8):
        stream.add(chunk)
    stream.finish()
    assert stream.score.sources.log_probabilities == pytest.approx(whole.log_probabilities)
    pipeline = detector.pipeline
    pieces = pipeline.cut(waveform)
    served, _ = pipeline.conclude(pieces, pipeline.score(pieces.all), "an upload")
    assert served.sources.log_probabilities == pytest.approx(whole.log_probabilities)
    assert served.entry()["source"] == whole.best


def test_a_network_without_a_head_names_none(tmp_path: Path) -> None:
    settings = settings_of()
    settings.source.column = None
    file = NetworkFile.from_network(Plain(settings).eval(), settings)
    assert file.sources is None
    write_network_file(tmp_path / "net.pt", file)
    detector = Detector(tmp_path / "net.pt", device="cpu", network_folder=TESTS)
    score = detector.score_trial(noise_waveforms([SHORT])[0], 16000)
    assert score.sources is None and detector.source_classes is None


def test_a_list_is_traced_in_its_order(written, tmp_path: Path) -> None:
    _, network = written
    waveforms = [waveform.astype(np.float32) for waveform in noise_waveforms(LENGTHS)]
    utterances = write_recordings(tmp_path, waveforms)
    settings = settings_of()
    scorer = build_list_scorer(network, settings, World())
    arguments = (scorer, utterances, np.array(LENGTHS), settings, World(), StopRequest())
    scored = score_with_extras(*arguments)
    assert scored.scores.shape == (4,) and scored.extras["sources"].shape == (4, 2)
    np.testing.assert_array_equal(scored.scores, score_list(*arguments))
    for row in range(4):
        logits = torch.from_numpy(scored.extras["sources"][row]).double()
        logs = expected(network, waveforms[row][:10000])
        np.testing.assert_allclose(logits.log_softmax(0).numpy(), logs, atol=1e-3)


def test_sources_of_windows_and_their_names() -> None:
    rows = [np.array([1.0, 3.0], np.float32), np.array([3.0, 2.0], np.float32)]
    loud, none = np.array([9.0, 0.0], np.float32), np.zeros(2)
    silence = Window(8, 12, 0.5, {"sources": loud}, none, silent=True)
    windows = [Window(4 * n, 4 * n + 4, 0.5, {"sources": rows[n]}, none) for n in (0, 1)]
    mean = Tally([*windows, silence]).extras["sources"]
    assert mean.tolist() == [2.0, 2.5] and mean.dtype == np.float32
    sources = name_sources("attack", ("A01", "A02"), mean)
    assert sources.best == "A02"
    assert sources.probabilities["A02"] == pytest.approx(1 / (1 + np.exp(-0.5)))
    assert sources.energy == pytest.approx(np.log(np.exp(2) + np.exp(2.5)))
    assert sum(SourceColumn.entry(sources)["sources"].values()) == pytest.approx(1)
