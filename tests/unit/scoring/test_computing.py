"""Scores are computed in the precision that is logged, and how far bf16's are from fp32's."""

import inspect
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import asdf
from asdf.audio import read_audio
from asdf.distributed.arithmetic import computes_bfloat16, multiplies_bfloat16
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.evaluation import eer
from asdf.extras.cpu.packed_weights import PackedLinear, is_available
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import AASIST_L
from asdf.networks.front_ends.architectures import Architecture, stem
from asdf.scoring.computing import (
    ScoringPrecision,
    agree_on_precision,
    choose_engine,
    choose_scoring_precision,
    describe_scoring,
    find_device,
)
from asdf.scoring.detector import Detector
from asdf.scoring.score_list import build_list_scorer
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Network, Sections
from asdf.trials.how_scored import PUBLISHED, HowScored
from asdf.trials.scored_files import read_how_scored, write_how_scored
from tests.unit.networks.conftest import build

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "networks"
OLDER = "cuda:0 has compute capability 7.5"


@pytest.mark.parametrize(
    ("requested", "capability", "name", "line"),
    [
        ("fp32", None, "fp32", "scoring in fp32"),
        ("tf32", None, "fp32", "scoring in fp32: tf32 not used: it needs a GPU"),
        ("fp32", (7, 0), "fp32", "scoring in fp32"),
        ("tf32", (7, 5), "fp32", f"scoring in fp32: TF32 not used: {OLDER}, it needs 8.0"),
        ("tf32", (8, 0), "tf32", "scoring in tf32"),
        ("bf16", (9, 0), "bf16", "scoring in bf16"),
        ("auto", None, "fp32", "scoring in fp32"),
        ("auto", (7, 5), "fp32", "scoring in fp32"),
        ("auto", (8, 0), "tf32", "scoring in tf32"),
        ("auto", (12, 0), "tf32", "scoring in tf32"),
    ],
)
def test_what_a_device_computes_in(monkeypatch, requested, capability, name, line):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    chosen = choose_scoring_precision(requested, GPU if capability else CPU)
    assert (chosen.name, chosen.describe()) == (name, line)


def test_the_default_is_tf32_on_gpus_that_have_it_and_no_amd_gpu(monkeypatch):
    assert Sections().computing.scoring_precision == "auto"
    assert inspect.signature(Detector).parameters["precision"].default == "auto"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 4))
    monkeypatch.setattr(torch.version, "hip", "6.2")
    assert choose_scoring_precision("auto", GPU).name == "fp32"


def test_the_log_names_the_precision_of_auto_where_it_is_tf32(monkeypatch):
    settings = Sections()
    settings.network.eval_minibatch_size_factor = 2
    gpu = SimpleNamespace(**{**vars(world_of()), "device": GPU})
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    (line,) = describe_scoring(settings, gpu)
    chosen = "as computing.scoring_precision = 'auto' is on this GPU"
    assert line.startswith(f"scoring in tf32, {chosen}: 'fp32' is more exact and takes several ti")
    assert describe_scoring(settings, world_of()) == []
    settings.computing.scoring_precision = "tf32"
    assert describe_scoring(settings, gpu) == ["scoring in tf32"]


def test_a_cpu_computes_in_bf16_where_torch_can_and_says_where_it_is_emulated():
    chosen = choose_scoring_precision("bf16", CPU)
    if multiplies_bfloat16():
        expected = "scoring in bf16"
    elif computes_bfloat16():
        expected = "scoring in bf16: this CPU has neither AVX512_BF16 nor AMX, so bf16 is emulated"
    else:
        expected = "scoring in fp32: bf16 not used: torch has no bf16 for all operations on this"
    assert chosen.describe().startswith(expected)


def test_emulated_bf16_and_what_is_no_precision_are_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    with pytest.raises(UsageError, match=r"cuda:0 has compute capability 7\.5, bf16 needs 8"):
        choose_scoring_precision("bf16", GPU)
    with pytest.raises(UsageError, match=r"precision 'fp16' is not known: use auto, fp32, "):
        choose_scoring_precision("fp16", CPU)


def world_of(*others: tuple[str, str, str]) -> SimpleNamespace:
    """The main rank among `others`: why each refuses, its precision, why that is another."""
    alike = {"agree": lambda value: value, "run_on_main": lambda decide: decide()}
    return SimpleNamespace(
        device=CPU, gather=lambda own: [own, *others], smallest_gpu=lambda: 0, **alike
    )


@pytest.mark.usefixtures("bfloat16")
def test_one_process_without_it_decides_for_all():
    assert agree_on_precision("bf16", World()).name == "bf16"
    assert agree_on_precision("bf16", world_of(("", "bf16", ""))).name == "bf16"
    agreed = agree_on_precision("bf16", world_of(("", "fp32", "it has none")))
    assert agreed.describe() == "scoring in fp32: it has none"
    emulating = ("", "bf16", "emulated")
    agreed = agree_on_precision("bf16", world_of(emulating, ("", "fp32", "it has none")))
    assert agreed.describe() == "scoring in fp32: it has none"
    agreed = agree_on_precision("bf16", world_of(emulating))
    assert agreed.name == "bf16" and agreed.reason
    with pytest.raises(UsageError, match="no bf16 there"):
        agree_on_precision("bf16", world_of(("no bf16 there", "fp32", "")))


def test_all_gpus_need_tf32_for_auto(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))

    def agreed_with(other: str) -> str:
        gpu = SimpleNamespace(**{**vars(world_of(("", other, ""))), "device": GPU})
        return agree_on_precision("auto", gpu).describe()

    assert agreed_with("tf32") == "scoring in tf32"
    assert agreed_with("fp32") == "scoring in fp32"


@pytest.mark.usefixtures("bfloat16")
def test_a_block_computes_so_whatever_is_around_it():
    layer, x = nn.Linear(4, 4), torch.randn(2, 4)
    with torch.autocast("cpu", torch.bfloat16):
        with choose_scoring_precision("fp32", CPU).computing():
            assert layer(x).dtype is torch.float32
        assert layer(x).dtype is torch.bfloat16
    with choose_scoring_precision("bf16", CPU).computing():
        output = layer(x)
    assert output.dtype is torch.bfloat16 and output.is_inference()
    assert layer(x).dtype is torch.float32


@pytest.mark.usefixtures("bfloat16")
def test_bf16_moves_published_scores_by_a_tenth_of_their_deviation(corpus):
    """AASIST-L as published, on half a second of the 16 clips.

    Some 50 products round what goes in and out to 8 bits, each by 2^-9 of its magnitude at most; if
    they err independently, by 2^-9 * sqrt(100) = 2 % together. The outputs reach 8, in which batch
    norms and attention may double it: 0.3. The EER is 37.5 %, as the network never heard such
    spoofs, and goes in steps of one of eight recordings.
    """
    network = AASIST_L(Sections()).eval()
    load_detector_weights(network, FIXTURES / "AASIST-L.pth")
    lines = (corpus / "dev_list.txt").read_text() + (corpus / "eval_list.txt").read_text()
    rows = [line.rsplit(None, 1) for line in lines.splitlines()]
    labels = np.array([int(label) for _, label in rows])
    clips = np.stack([np.resize(read_audio(corpus / name), 8000) for name, _ in rows])
    scores = {}
    for name in ("fp32", "bf16"):
        with choose_scoring_precision(name, CPU).computing():
            logits = network(torch.from_numpy(clips.astype(np.float32)))[1]
        assert logits.dtype is torch.float32
        scores[name] = logits[:, 1].numpy()
    moved = np.abs(scores["bf16"] - scores["fp32"])
    assert 1e-4 < moved.max() < 0.3
    # An output layer in bf16 would give few values to many trials.
    assert len(set(scores["bf16"].tolist())) == len(rows)
    rates = [eer(s[labels == 1], s[labels == 0])[0] for s in scores.values()]
    assert rates[0] == 0.375 and abs(rates[1] - rates[0]) <= 1 / 8


class _TooLarge(nn.Module):
    def __init__(self, error: RuntimeError) -> None:
        super().__init__()
        self.error = error

    def forward(self, waveforms_BT: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        raise self.error


def refuse(error: RuntimeError, count: int = 6) -> str:
    """The message for an error in a batch of recordings of 1,000 samples; minibatches have 2."""
    settings = Network(minibatch_size=2, train_clip_size=1000)
    scorer = Scorer(_TooLarge(error), settings, choose_scoring_precision("fp32", CPU))
    with pytest.raises(RuntimeError if "another" in str(error) else AsdfError) as caught:
        scorer.compute(torch.zeros(count, 1000))
    return str(caught.value)


def test_a_batch_that_does_not_fit_is_one_message_that_names_the_setting():
    on_a_gpu = "CUDA out of memory. Tried to allocate 2 GiB."
    message = refuse(torch.OutOfMemoryError(f"{on_a_gpu}\nmore"))
    tried = "cpu has not enough memory to score 6 recordings of 1,000 samples at once"
    smaller = "Set network.eval_minibatch_size_factor below 3 (now 'auto'), or free memory"
    assert message.startswith(f"{tried}: {on_a_gpu} {smaller}")
    on_the_host = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")
    assert "factor below 3" in refuse(on_the_host)
    alone = refuse(torch.OutOfMemoryError("CUDA out of memory."), count=1)
    assert "max_evaluation_utterance_length_in_samples below 1,000 (now 1000000)" in alone
    assert refuse(RuntimeError("another one")) == "another one"


def test_a_mac_s_gpu_is_used_with_a_warning_and_in_fp32(monkeypatch, caplog):
    # What can be computed there is not known here; that a number can is what is asked.
    monkeypatch.setattr(torch, "ones", lambda size, device: torch.tensor([1.0]))
    found = find_device("mps")
    assert found == torch.device("mps")
    (message,) = caplog.messages
    assert message.startswith("mps: ASDF is tested only on CPUs and NVIDIA GPUs. Score some recor")
    assert choose_scoring_precision("auto", found).describe() == "scoring in fp32"
    assert choose_scoring_precision("bf16", found).name == "fp32"
    caplog.clear()
    assert find_device("cpu") == torch.device("cpu") and not caplog.messages


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
    with pytest.raises(UsageError, match="engine 'quick' is not known: use auto, packed or plain"):
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
    scores = [float(detector.score_trial(noise, 16_000)) for detector in (packed, plain)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
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
