"""Packed weights in scoring: chosen where they can be, stated with the scores, and turned off."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch

import asdf
from asdf.distributed.arithmetic import multiplies_bfloat16
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.extras.cpu.packed_weights import PackedLinear, is_available
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.scoring.computing import ScoringPrecision, choose_engine
from asdf.scoring.score_list import build_list_scorer
from asdf.settings.sections import Sections
from asdf.trials.how_scored import PUBLISHED, HowScored
from asdf.trials.scored_files import read_how_scored, write_how_scored
from tests.unit.networks.conftest import build

CPU = torch.device("cpu")
LARGE = Architecture(stem(32), "layer_norm", True, 256, 1, 4, 256, True, pos_conv_groups=8)
needs_packed = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")


@pytest.fixture
def settings() -> Sections:
    settings = Sections()
    settings.front_end.architecture = LARGE.to_text()
    settings.network.min_evaluation_utterance_length_in_samples = 400
    return settings


@needs_packed
def test_packed_is_for_a_cpu_in_fp32_alone():
    assert choose_engine("packed", ScoringPrecision("fp32", CPU)) == "packed"
    assert choose_engine("plain", ScoringPrecision("fp32", CPU)) == "plain"
    in_bf16 = "packed" if multiplies_bfloat16() else "plain"
    assert choose_engine("packed", ScoringPrecision("bf16", CPU)) == in_bf16
    assert choose_engine("packed", ScoringPrecision("fp32", torch.device("cuda", 0))) == "plain"
    with pytest.raises(UsageError, match="engine 'quick' is not known: use packed or plain"):
        choose_engine("quick", ScoringPrecision("fp32", CPU))


@needs_packed
def test_a_list_is_scored_by_the_engine_of_the_settings(settings):
    network = build(settings, "SSL_ASP").eval()
    rng = np.random.default_rng(0)
    waveforms = [rng.normal(0, 0.1, size).astype(np.float32) for size in (8000, 9000, 8000)]
    scores = {}
    for engine in ("packed", "plain"):
        settings.computing.scoring_engine = engine
        scorer = build_list_scorer(network, settings, World())
        assert scorer.engine == scorer.how_scored.engine == engine
        scores[engine] = scorer.score_waveforms(waveforms).scores
    assert not np.array_equal(scores["packed"], scores["plain"])
    np.testing.assert_allclose(scores["packed"], scores["plain"], atol=1e-5, rtol=0)
    # The network that learns is whole.
    assert not any(isinstance(module, PackedLinear) for module in network.modules())


def test_a_detector_states_its_engine_and_its_copies_have_it(network_file):
    noise = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    packed = asdf.Detector(network_file, "cpu")
    plain = asdf.Detector(network_file, "cpu", engine="plain")
    assert plain.engine == "plain"
    assert packed.engine == ("packed" if is_available() else "plain")
    assert float(packed.score_trial(noise, 16_000)) == pytest.approx(
        float(plain.score_trial(noise, 16_000)), abs=1e-5
    )
    assert pickle.loads(pickle.dumps(plain)).engine == "plain"
    with pytest.raises(UsageError, match="engine 'none'"):
        asdf.Detector(network_file, "cpu", engine="none")


def test_the_engine_is_written_next_to_scores(tmp_path):
    path = tmp_path / "dev.txt"
    write_how_scored(path, HowScored(PUBLISHED, "fp32", "packed"))
    assert json.loads(path.with_suffix(".scored.json").read_text())["engine"] == "packed"
    assert read_how_scored(path).engine == "packed"
    # Within 1e-5: a comparison needs no remark.
    assert HowScored(PUBLISHED, "fp32", "packed") == HowScored(PUBLISHED, "fp32", "plain")
