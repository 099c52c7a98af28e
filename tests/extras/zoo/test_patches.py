"""Front ends of patches (BEATs, EAT, Dasheng) equal their authors' code, and what all of them keep.

Weights are read from files and folders in their authors' layouts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.networks.beats import BEATsSizes
from asdf.extras.zoo.networks.dasheng import DashengSizes
from asdf.extras.zoo.networks.eat import EATSizes, make_positions
from asdf.extras.zoo.networks.patches import PatchSizes
from asdf.interchange import build_pretrained
from asdf.networks import build_network
from asdf.networks.ssl_detector import find_front_end_class
from asdf.settings.sections import Lora, Sections
from tests.unit.networks.inspection import names_with_gradient, trainable_names
from tests.unit.networks.official import official_case

BIASES = "self_attn.relative_attention_bias.weight"
POSITIONS = "model.fixed_positional_encoder.positions"
BEATS = {
    "input_patch_size": 16, "embed_dim": 8, "conv_bias": False, "encoder_layers": 3,
    "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_attention_heads": 2,
    "activation_fn": "gelu", "layer_norm_first": False, "deep_norm": True, "conv_pos": 16,
    "conv_pos_groups": 4, "relative_position_embedding": True, "num_buckets": 16,
    "max_distance": 40, "gru_rel_pos": True, "finetuned_model": False,
}  # fmt: skip
TIMM = {"embed_dim": 16, "depth": 3, "num_heads": 2, "mlp_ratio": 1.5}
EAT = {
    **TIMM,
    "model_type": "eat",
    "patch_size": 16,
    "stride": 16,
    "mel_bins": 128,
    "layer_norm_first": False,
    "auto_map": {"AutoModel": "modeling_eat.EATModel"},
}
DASHENG = {**TIMM, "target_length": 16, "patch_size": [64, 4], "patch_stride": [64, 4]}


def write_folder(path: Path, config: dict[str, Any], state: dict[str, torch.Tensor]) -> str:
    path.mkdir()
    save_file(state, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def write_beats(path: Path, config: dict[str, Any] | None = None, **layers: torch.Tensor) -> str:
    state = official_case("beats").state
    # The authors' layers share the first one's biases, and their files repeat them.
    for layer in (1, 2):
        state[f"encoder.layers.{layer}.{BIASES}"] = state[f"encoder.layers.0.{BIASES}"]
    torch.save({"cfg": {**BEATS, **(config or {})}, "model": {**state, **layers}}, path)
    return str(path)


def write_eat(path: Path, config: dict[str, Any] | None = None, **layers: torch.Tensor) -> str:
    case = official_case("eat")
    state = {**case.state, POSITIONS: case.outputs["positions"], **layers}
    return write_folder(path, {**EAT, **(config or {})}, state)


def write_dasheng(path: Path, config: dict[str, Any] | None = None, **layers: torch.Tensor) -> str:
    """A folder of the hub, which holds no filter bank, and layers behind a prefix."""
    state = {f"encoder.{name}": tensor for name, tensor in official_case("dasheng").state.items()}
    values = dict(config or {})
    described = {
        "model_type": values.pop("model_type", "dasheng"),
        "name": "dasheng-base",
        "loss": "BCELoss",
        "encoder_kwargs": {**DASHENG, **values},
        "auto_map": {"AutoModel": "modeling_dasheng.DashengModel"},
    }
    return write_folder(path, described, {**state, **layers})


def write_dasheng_file(path: Path) -> str:
    """A file of the package, with the filter bank and counts of batches that torchaudio keeps."""
    state = {
        **official_case("dasheng").state,
        "front_end.0.spectrogram.window": torch.hann_window(512),
        "init_bn.1.num_batches_tracked": torch.tensor(7),
    }
    torch.save({"model": state, "config": {**DASHENG, "patch_size": (64, 4)}}, path)
    return str(path)


@dataclass(frozen=True)
class Case:
    """A front end of patches in small.

    Attributes:
        write: Writes its published weights, with changes of the configuration and further layers.
        bank: Frames of the filter bank that the official case holds, and the tolerance.
        shape, tolerance: Shape of its states, and the tolerance.
        tokens: Number of states of an utterance before its patches.
        head: Layers of a fine-tuned network, with what its configuration says.
        lengths: Numbers of patches by samples.
        millions: Parameters in its published size.
    """

    name: str
    tiny: PatchSizes
    write: Callable[..., str]
    bank: slice
    bank_tolerance: float
    shape: tuple[int, ...]
    tolerance: float
    lengths: dict[int, int]
    millions: int
    tokens: int = 0
    head: tuple[dict[str, Any], dict[str, torch.Tensor]] = ({}, {})

    def settings(self, weights: str | None = None) -> Sections:
        settings = Sections()
        settings.network.network_class = "asdf.networks.SSL_ASP"
        settings.front_end.front_end_class = self.name
        # With weights the sizes are theirs.
        if weights is None:
            settings.front_end.architecture = self.tiny.to_text()
        settings.front_end.weights = weights
        return settings


SMALL: dict[str, Any] = {"layers": 3, "dimension": 16, "heads": 2, "feed_forward": 24}
POSITIONAL = {"pos_conv_kernel": 16, "pos_conv_groups": 4, "buckets": 16, "max_distance": 40}
COLUMNS = {2800: 8, 5359: 8, 5360: 16, 12000: 32}
CASES = {
    "beats": Case(
        "beats",
        BEATsSizes(**SMALL, **POSITIONAL, patch_dimension=8),
        write_beats,
        slice(20),
        1e-4,
        (4, 1, 24, 16),
        2e-4,
        COLUMNS,
        90,
        head=(
            {"finetuned_model": True},
            {"predictor.weight": torch.zeros(527, 16), "predictor.bias": torch.zeros(527)},
        ),
    ),
    "eat": Case(
        "eat",
        EATSizes(**SMALL),
        write_eat,
        slice(20),
        1e-4,
        (4, 1, 24, 16),
        2e-4,
        COLUMNS,
        85,
        # The token of the whole recording.
        tokens=1,
        head=(
            {"model_variant": "finetune"},
            {"model.head.weight": torch.zeros(5, 16), "model.fc_norm.bias": torch.zeros(16)},
        ),
    ),
    # In 7 chunks, with silence that the range of 120 dB cuts off, and a last frame left over.
    "dasheng": Case(
        "dasheng",
        DashengSizes(**SMALL, positions=4),
        write_dasheng,
        slice(50, 80),
        1e-3,
        (4, 1, 25, 16),
        5e-4,
        {480: 1, 1119: 1, 1120: 2, 12000: 19},
        85,
        head=({}, {"encoder.outputlayer.0.weight": torch.zeros(5, 16)}),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


WRITERS = {
    **{name: (name, case.write) for name, case in CASES.items()},
    "dasheng, a file": ("dasheng", write_dasheng_file),
}


@pytest.mark.parametrize("name", WRITERS)
def test_published_weights_give_the_authors_features_of_every_layer(name, tmp_path):
    kind, write = WRITERS[name]
    case, official = CASES[kind], official_case(kind)
    front_end = build_pretrained(case.settings(write(tmp_path / "weights"))).eval().front_end
    assert front_end.sizes == case.tiny
    bank = front_end.model.filter_bank(official.inputs)[:, case.bank]
    expected = official.outputs["filter_bank"]
    torch.testing.assert_close(bank, expected, rtol=0, atol=case.bank_tolerance)
    states = torch.stack(front_end.hidden_states(official.inputs))
    expected = official.outputs["states"][:, :, case.tokens :]
    assert states.shape == expected.shape == case.shape
    torch.testing.assert_close(states, expected, rtol=0, atol=case.tolerance)
    assert torch.equal(front_end(official.inputs), states[-1])
    # Short of the last layer there is no final norm.
    settings = case.settings(write(tmp_path / "again"))
    settings.front_end.layer = 2
    second = build_pretrained(settings).eval().front_end(official.inputs)
    torch.testing.assert_close(second, expected[2], rtol=0, atol=case.tolerance)


def test_fine_tuned_weights_are_read_without_their_head(case, tmp_path):
    config, head = case.head
    whole = build_pretrained(case.settings(case.write(tmp_path / "tuned", config, **head)))
    plain = build_pretrained(case.settings(case.write(tmp_path / "plain")))
    state = whole.front_end.state_dict()
    for name, value in plain.front_end.state_dict().items():
        assert torch.equal(value, state[name])


ZEROS = torch.zeros(2)
OF_TIMM = [
    ({"num_heads": 3}, {}, "is invalid: heads = 3 does not match the other sizes"),
    ({"depth": "x"}, {}, "is invalid"),
    ({"depth": 90000}, {}, "states 90,000 layers of 16 and 24 values, but its weights have 3"),
    ({"mlp_ratio": 2.0}, {}, r"16 and 32 values, .* the first of \(24, 16\)"),
]


REFUSED: dict[str, list[tuple[dict[str, Any], dict[str, torch.Tensor], str]]] = {
    "beats": [
        ({"encoder_layers": 4}, {}, "states 4 layers of 16 and 24 values, but its weights have 3"),
        ({"layer_norm_first": True}, {}, "has layer_norm_first = True in its configuration"),
        ({"max_distance": None}, {}, "its configuration lacks the number max_distance"),
        ({}, {"decoder.weight": ZEROS}, r"1 unknown to the network: decoder\.weight"),
        (
            {},
            {f"encoder.layers.2.{BIASES}": torch.zeros(16, 2)},
            "1 unknown to the network: layers.2.attention.relative",
        ),
    ],
    "eat": [
        *OF_TIMM,
        ({"model_type": "hubert"}, {}, "is of the model type 'hubert', not EAT"),
        ({"layer_norm_first": True}, {}, "has layer_norm_first = True in its config"),
        ({}, {"model.pre_norm.weight": ZEROS}, r"1 of another shape: pre_norm\.weight"),
        ({}, {"model.decoder": ZEROS}, "1 unknown to the network: decoder"),
        ({}, {POSITIONS: torch.zeros(1, 96, 16)}, "have positions other than EAT's sines"),
    ],
    "dasheng": [
        *OF_TIMM,
        ({"model_type": "ced"}, {}, "is of the model type 'ced', not Dasheng"),
        ({"patch_stride": [32, 4]}, {}, r"has patch_stride = \[32, 4\] .* supports \[64, 4\]"),
        ({"pooling": "token"}, {}, "has pooling = 'token'"),
        ({}, {"encoder.norm.weight": ZEROS}, r"1 of another shape: norm\.weight"),
        ({}, {"encoder.cls_token": ZEROS}, "1 unknown to the network: cls_token"),
    ],
}


@pytest.mark.parametrize(
    ("name", "row"), [(name, row) for name, rows in REFUSED.items() for row in rows]
)
def test_weights_that_are_others_are_refused(name, row, tmp_path):
    config, layers, message = row
    case = CASES[name]
    weights = case.write(tmp_path / "weights", config, **layers)
    with pytest.raises(AsdfError, match=message):
        build_pretrained(case.settings(weights))


@pytest.mark.parametrize("name", WRITERS)
def test_weights_of_another_class_name_their_own(name, tmp_path):
    kind, write = WRITERS[name]
    settings = CASES[kind].settings(write(tmp_path / "weights"))
    settings.front_end.front_end_class = None
    with pytest.raises(AsdfError, match=f"[Ss]et front_end.front_end_class = '{kind}'"):
        build_pretrained(settings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("beats", "is not a BEATs file: it lacks the configuration"),
        ("eat", r"are not a folder of EAT: it contains no config\.json"),
        ("dasheng", "are not Dasheng's: a folder of the hub has"),
    ],
)
def test_weights_of_no_known_kind_are_refused(name, message, tmp_path):
    torch.save({"model": {"a": torch.zeros(2)}}, tmp_path / "other.pt")
    with pytest.raises(AsdfError, match=message):
        build_pretrained(CASES[name].settings(str(tmp_path / "other.pt")))


def test_heads_that_a_file_does_not_state_are_the_authors(tmp_path):
    path = write_dasheng_file(tmp_path / "base.pt")
    content = torch.load(path)
    del content["config"]["num_heads"]
    torch.save(content, path)
    # Of 16 values none are published: 12 is the base network's, which 16 does not divide into.
    with pytest.raises(AsdfError, match="heads = 12 does not match"):
        build_pretrained(CASES["dasheng"].settings(path))


def test_published_sizes_are_the_papers(case):
    """Features of 768 values; sizes are read back from their text."""
    settings = case.settings().front_end
    settings.architecture = case.name
    with torch.device("meta"):
        front_end = find_front_end_class(settings)(settings)
    parameters = sum(weight.numel() for weight in front_end.parameters())
    assert (front_end.architecture_setting, front_end.dimension) == (case.name, 768)
    assert round(parameters / 1e6) in (case.millions, case.millions + 1)
    assert type(case.tiny).from_text(json.dumps(asdict(case.tiny))) == case.tiny


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *(
            (name, '{"unknown": 3}', f"is not the literal of {CASES[name].tiny.words}")
            for name in CASES
        ),
        ("beats", "{'layers': 2}", "is not the literal of BEATs' sizes"),
        ("beats", '{"layers": 0}', r"is not the literal of BEATs' sizes \(layers is 0\)"),
        ("beats", '{"heads": 5}', "heads = 5 does not match the other sizes"),
        ("beats", '{"patch": 30}', "patch = 30 does not match the other sizes"),
        ("beats", '{"deep_norm": 1}', "deep_norm is 1"),
        ("beats", '{"buckets": 3200}', "buckets = 3200 does not match the other sizes"),
    ],
)
def test_sizes_that_no_network_has_are_refused(name, text, message):
    settings = CASES[name].settings()
    settings.front_end.architecture = text
    with pytest.raises(UsageError, match=message):
        build_network(settings)


def test_lengths_and_independence_of_utterances(case):
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 12000)
    # Dasheng's strongest band is that of each recording, and not of its batch.
    waveforms[0] *= 50 if case.name == "dasheng" else 1
    front_end = build_network(case.settings()).eval().front_end
    for samples, patches in case.lengths.items():
        features = front_end(waveforms[:, :samples])
        assert features.shape == (2, patches, 16) and front_end.frames(samples) == patches
        used = front_end.scoring_length(samples)
        torch.testing.assert_close(front_end(waveforms[:, :used]), features, rtol=0, atol=1e-5)
        least = front_end.min_samples(patches)
        assert used == samples >= least if case.name == "dasheng" else used == least
    torch.testing.assert_close(front_end(waveforms[1:]), features[1:], rtol=0, atol=1e-5)


def test_fewer_layers_parts_and_updates():
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 8000)
    settings = CASES["beats"].settings()
    settings.front_end.layer = 2
    settings.front_end.trained_parts = ("positions", "layers:2-2")
    settings.lora = Lora(rank=2)
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    names = {name for name in trainable_names(network) if name.startswith("front_end.")}
    assert any("pos" in name for name in names) and not any(".layers.2." in name for name in names)
    assert any("q_proj.lora_A" in name for name in names)
    assert not any("pos_gate.lora" in name for name in names)
    layer = network.front_end.layer_modules()[0]
    seen = []
    layer.attention.register_forward_pre_hook(lambda _, args: seen.append(args[1].shape))
    network.eval()(waveforms)
    # Three columns of eight patches.
    assert seen == [(1, 2, 24, 24)]


def test_frames_are_no_times_but_of_dasheng():
    for name in ("beats", "eat"):
        settings = CASES[name].settings()
        settings.localisation.enabled = True
        with pytest.raises(UsageError, match="are patches of time and frequency, which do not"):
            build_network(settings)
    # Dasheng's follow each other.
    settings = CASES["dasheng"].settings()
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.localisation.enabled = True
    front_end = build_network(settings).front_end
    assert (front_end.hop, front_end.frames(16000)) == (640, 25)


def test_statistics_of_bands_stay_in_training():
    network = build_network(CASES["dasheng"].settings()).train()
    norm = network.front_end.model.band_norm
    network(torch.randn(2, 4000))
    assert torch.equal(norm.running_mean, torch.zeros(64))
    assert not any("running" in name for name in trainable_names(network))


def test_chunks_do_not_attend_to_each_other():
    """A change in the second chunk changes no patch of the others, but for its mirrored edges."""
    torch.manual_seed(0)
    front_end = build_network(CASES["dasheng"].settings()).eval().front_end
    waveforms = 0.1 * torch.randn(1, 8000)
    changed = waveforms.clone()
    # Patches 5 and 6 of 12 are of windows from 2944 to 4736.
    changed[:, 3400:3800] *= 2
    with torch.no_grad():
        difference = (front_end(changed) - front_end(waveforms)).abs().amax(dim=(0, 2))
    assert (difference[4:8] > 1e-4).all()
    assert difference[:4].eq(0).all() and difference[8:].eq(0).all()


def test_positions_are_those_of_the_file_and_go_on():
    positions = official_case("eat").outputs["positions"][0]
    ours = make_positions(CASES["eat"].tiny, 20, torch.device("cpu"))
    torch.testing.assert_close(ours[: len(positions)], positions, rtol=0, atol=1e-5)
    assert len(ours) == 160


@pytest.mark.parametrize(
    ("name", "parts"),
    [("eat", ["attn", "norm1", "mlp", "norm2"]), ("dasheng", ["norm1", "attn", "norm2", "mlp"])],
)
def test_parameters_stay_in_the_order_of_states_in_checkpoints(name, parts):
    first = build_network(CASES[name].settings()).front_end.model.blocks[0]
    assert [part for part, _ in first.named_children() if part != "dropout"] == parts


@pytest.mark.parametrize("recompute", [False, True])
def test_all_of_it_learns_and_so_do_updates(case, recompute):
    settings = case.settings()
    settings.front_end.gradient_checkpointing = recompute
    settings.front_end.layer_drop = 0.5
    settings.front_end.time_mask_proportion = 0.2
    waveforms = 0.1 * torch.randn(2, 12000)
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    settings.lora = Lora(rank=2)
    settings.front_end.layer = 2
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    names = {name for name in trainable_names(network) if name.startswith("front_end.model.")}
    assert any("lora_A" in name for name in names)
    assert not any(".blocks.2." in name or ".layers.2." in name for name in names)
