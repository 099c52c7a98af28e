"""Lists of pairs: each reference is embedded once, and a score is that of the two waveforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from asdf.audio import read_audio
from asdf.data.references import MeasuredReferences
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.networks import PairNetwork
from asdf.scoring.score_list import build_list_scorer, score_with_extras
from asdf.settings.sections import Sections
from asdf.trials.reference_files import distinct_references
from asdf.trials.references import References
from tests.unit.scoring.test_score_list import LENGTHS, plain, scoring_settings, utterances

assert utterances  # a fixture
WORDS = ["0.wav", "1.wav;2.wav", "0.wav", "3.wav", "1.wav", "1.wav;2.wav;4.wav", "3.wav", "0.wav"]


class Counting(PairNetwork):
    """Three statistics as embedding; their products in the logits. It counts what it embeds."""

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        self.output = nn.Linear(3, 2)
        self.embedded: list[torch.Tensor] = []

    def embed(self, waveforms_BT: torch.Tensor) -> torch.Tensor:
        self.embedded += list(waveforms_BT)
        deviation_B, mean_B = torch.std_mean(waveforms_BT, dim=1)
        return torch.stack([deviation_B, mean_B, waveforms_BT.abs().amax(dim=1)], dim=1)

    def compare(self, tests_BE: torch.Tensor, references_BE: torch.Tensor) -> torch.Tensor:
        return self.output(tests_BE * references_BE)


def counting() -> Counting:
    torch.manual_seed(0)
    return Counting(Sections())


def paired(utterances, words=WORDS):
    return replace(utterances, references=References.without_lines(words))


def measured(trials) -> MeasuredReferences:
    distinct = distinct_references(trials)
    lengths = [
        len(read_audio(distinct.recordings.path(index)))
        for index in range(len(distinct.recordings))
    ]
    return MeasuredReferences(distinct, np.array(lengths))


def score(network, trials, output=None, stop=None) -> np.ndarray:
    scorer = build_list_scorer(network, scoring_settings(), World())
    if trials.references is not None:
        scorer.list_references = measured(trials)
    scored = score_with_extras(
        scorer,
        trials,
        LENGTHS,
        scoring_settings(),
        World(),
        StopRequest() if stop is None else stop,
        output=output,
    )
    return scored.scores


def heard(trials, index: int) -> np.ndarray:
    """Return what is heard of a recording: repeated to 4,000 samples, or cut at 8,000."""
    waveform = read_audio(trials.path(index))
    return np.resize(waveform, max(len(waveform), 4000))[:8000].astype(np.float64)


def statistics(waveform: np.ndarray) -> np.ndarray:
    return np.array([waveform.std(ddof=1), waveform.mean(), np.abs(waveform).max()])


def expected(network, trials, words=WORDS) -> np.ndarray:
    weight = network.output.weight.detach().double().numpy()[1]
    bias = float(network.output.bias.detach()[1])
    scores = []
    for index, of_trial in enumerate(words):
        numbers = [int(word.removesuffix(".wav")) for word in of_trial.split(";")]
        reference = np.mean([statistics(heard(trials, number)) for number in numbers], axis=0)
        scores.append(weight @ (statistics(heard(trials, index)) * reference) + bias)
    return np.array(scores)


def test_scores_are_those_of_the_means_of_the_references(utterances):
    network = counting()
    trials = paired(utterances)
    np.testing.assert_allclose(score(network, trials), expected(network, trials), atol=1e-6)


def test_each_distinct_reference_is_embedded_once(utterances):
    network = counting()
    score(network, paired(utterances))
    # Five distinct references for eleven names, and eight trials.
    assert len(network.embedded) == 5 + 8


def test_forward_on_waveforms_gives_the_same(utterances):
    network = counting().eval()
    trials = paired(utterances)
    result = score(network, trials)
    with torch.no_grad():
        test_BT = torch.from_numpy(heard(trials, 4)).float()[None]
        references_BRT = torch.from_numpy(heard(trials, 1)).float()[None, None]
        _, logits_B2 = network(test_BT, references=references_BRT)
    assert float(logits_B2[0, 1]) == pytest.approx(float(result[4]), abs=1e-6)


def test_a_stopped_list_ends_with_the_same_bytes_unless_references_changed(utterances, tmp_path):
    network = counting()
    trials = paired(utterances)
    whole = score(network, trials)
    output = tmp_path / "scores.txt"
    stop = StopRequest()

    class Stopping(Counting):
        def compare(self, tests_BE, references_BE):
            stop.reason = "a test"
            return super().compare(tests_BE, references_BE)

    stopping = Stopping(Sections())
    stopping.load_state_dict(network.state_dict())
    with pytest.raises(Stopped):
        score(stopping, trials, output, stop)
    assert list(tmp_path.glob(".scores.txt.rows-*"))
    stopping.compare = lambda *arguments: Counting.compare(stopping, *arguments)
    again = score(stopping, trials, output)
    assert again.tobytes() == whole.tobytes()
    other = ["4.wav", *WORDS[1:]]
    changed = score(stopping, paired(utterances, other), output)
    np.testing.assert_allclose(changed, expected(network, trials, other), atol=1e-6)


def test_a_list_without_references_is_refused_in_one_message(utterances):
    with pytest.raises(
        UsageError, match=r"Counting compares each .* but there is none\. Pass one: "
    ):
        score(counting(), utterances)
    with pytest.raises(UsageError, match="--reference REF"):
        counting()(torch.zeros(2, 4000))


def test_a_detector_embeds_no_reference(utterances):
    scorer = build_list_scorer(plain(), scoring_settings(), World())
    with pytest.raises(
        UsageError, match="Plain does not take a reference: it scores each recording by itself"
    ):
        scorer.embed(torch.zeros(1, 4000))


def test_embeddings_that_are_no_numbers_name_the_reference(utterances):
    network = counting()
    embed = network.embed
    network.embed = lambda waveforms_BT: embed(waveforms_BT) / 0
    with pytest.raises(AsdfError, match=r"5 references are not finite numbers, first: 0\.wav"):
        score(network, paired(utterances))


def test_a_scorer_with_a_reference_scores_all_against_it(utterances):
    network = counting()
    trials = paired(utterances, ["1.wav;2.wav"] * 8)
    scorer = build_list_scorer(network, scoring_settings(), World())
    waveforms = [read_audio(trials.path(index)) for index in range(8)]
    bound = scorer.with_reference([waveforms[1], waveforms[2]])
    result = bound.score_waveforms(waveforms).scores
    wanted = expected(network, trials, ["1.wav;2.wav"] * 8)
    np.testing.assert_allclose(result, wanted, atol=1e-6)
    with pytest.raises(UsageError, match="but there is none"):
        scorer.score_waveforms(waveforms)
