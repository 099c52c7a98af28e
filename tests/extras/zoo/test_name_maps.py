"""Detectors of toolkits and challenges: read by their layers, as their programs score, given back.

The outputs are those of their authors' code, run on drawn weights (tests/fixtures/networks).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.fft import dct
from torch import Tensor

from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.importing import import_detector, load_detector_weights
from asdf.extras.zoo.layouts.name_maps import NAME_MAPS, name_map_of, name_maps_by_kind
from asdf.extras.zoo.layouts.published import authors_state, named_state
from asdf.extras.zoo.layouts.recognition import LAYOUTS
from asdf.interchange import read_detector
from asdf.networks import build_network
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.interface import cut_or_repeat
from asdf.settings.sections import Sections, assign
from tests.extras.zoo.test_published_layouts import train_further, write
from tests.unit.networks.official import official_case
from tests.unit.networks.test_spectral import triangles

ENCODER = replace(
    KNOWN["wav2vec2_xlsr_300m"],
    conv_layers=((8, 10, 5), *[(8, 3, 2)] * 4, *[(8, 2, 2)] * 2),
    dimension=16,
    layers=2,
    heads=2,
    feed_forward=32,
    pos_conv_kernel=16,
    pos_conv_groups=4,
)
SMALL_ENCODER = {"front_end.architecture": ENCODER.to_text()}


@dataclass(frozen=True)
class Case:
    """A layout.

    Attributes:
        layout: Beginning of what `import` says it was recognised as.
        said: Other lines of `import`.
        lost: Layers that do not come back, by the beginnings of their names.
        short: Length of the inputs that `short` of the official outputs is of; 0: none.
        settings: what the file cannot say, for these small sizes.
        tolerance: Largest difference of scores.
        samples: Length that inputs are repeated to; 0: as they are.
        learning_rate, steps: Rate and steps of a training from drawn weights.
    """

    layout: str
    said: tuple[str, ...]
    short: int = 0
    settings: dict[str, object] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    tolerance: float = 2e-4
    samples: int = 0
    learning_rate: float = 2e-3
    steps: int = 4

    def heard(self, waveforms_BT: Tensor) -> Tensor:
        """Return waveforms as their program hears them."""
        return cut_or_repeat(waveforms_BT, self.samples) if self.samples else waveforms_BT


EXPORT = ["export", "--format", "published", "--output"]
PRETRAINING = ("mask_emb", "quantizer.", "project_q.", "final_proj.")


RAWGAT = Case(
    "RawGAT-ST: raw waveforms, and graphs of frequencies and of times",
    (
        "back_end.rawgat_fusion = 'mul', as published; no shape shows it",
        "scored, as published: first 64,600 samples",
        "bona fide: the second output",
    ),
    tolerance=1e-4,
    learning_rate=1e-5,
    steps=2,
)


def of_maps(back_end: str, front_end: str) -> Case:
    layout = f"Whisper-MesoNet's program: features as maps and {back_end}"
    settings = {"front_end.front_end_class": front_end}
    return Case(layout, (), settings=settings, samples=32000, learning_rate=1e-4)


CASES = {
    "wedefense_mhfa": Case(
        "WeDefense: a self-supervised front end and MHFA on centred frames",
        (
            "back_end.mhfa_heads = 3, by the shapes of the layers",
            "back_end.mhfa_compression = 5, by the shapes of the layers",
            "back_end.mhfa_embedding = 7, by the shapes of the layers",
            "front_end.normalize_waveforms = True, as s3prl has it for such front ends",
            "scored, as published: whole",
            "bona fide: the first output",
        ),
        5150,
        SMALL_ENCODER,
        tuple(f"frontend.upstream.upstream.model.{name}" for name in PRETRAINING),
    ),
    "lfcc_lcnn": Case(
        "ASVspoof 2021's baseline: LFCC and LCNN with LSTM layers",
        ("scored, as published: whole", "bona fide: its one output"),
        8000,
    ),
    "rawgat_st": RAWGAT,
    "rawgat_st_add": replace(RAWGAT, said=(), settings={"back_end.rawgat_fusion": "add"}),
    "rawgat_st_cat": replace(
        RAWGAT, said=("back_end.rawgat_fusion = 'cat', by the shapes of the layers",)
    ),
    "spoof_superb": Case(
        "spoof_SUPERB: a sum of a front end's layers, a projection, the mean over time",
        (
            "back_end.classifier_projection = 6, by the shapes of the layers",
            "front_end.normalize_waveforms = True, as s3prl has it for such front ends",
            "scored, as published: first 64,600 samples",
            "bona fide: the second output",
        ),
        5150,
        SMALL_ENCODER,
        tuple(f"ssl_model.model.upstream.model.{name}" for name in PRETRAINING),
    ),
    "spoof_superb_aasist": Case(
        "spoof_SUPERB: a sum of a front end's layers and AASIST",
        ("scored, as published: first 64,600 samples", "bona fide: the second output"),
        5150,
        SMALL_ENCODER,
        tuple(f"ssl_model.model.upstream.model.{name}" for name in PRETRAINING),
        # Logits are several hundred: float32's half unit there is 3e-5, times its many layers.
        tolerance=2e-2,
        learning_rate=1e-4,
    ),
    "deepfense_aasist": Case(
        "DeepFense: a self-supervised front end and AASIST",
        (
            "front_end.normalize_waveforms = False, as published",
            "scored, as published: first 64,000 samples",
            "by DeepFense's defaults: no config.yaml lies next to it",
            "bona fide: the second output, whose logit is the score",
        ),
        5150,
        SMALL_ENCODER,
        learning_rate=1e-4,
    ),
    "deepfense_nes2net": Case(
        "DeepFense: a self-supervised front end and Nes2Net",
        (
            "back_end.nes2net_splits = (4, 2), by the shapes of the layers",
            "back_end.nes2net_squeeze = 2, by the shapes of the layers",
        ),
        5150,
        SMALL_ENCODER,
    ),
    "deepfense_mlp": Case(
        "DeepFense: a self-supervised front end and MLP",
        (
            "back_end.deepfense_layers = (12, 10), by the shapes of the layers",
            "back_end.deepfense_norm = 'layer', by the shapes of the layers",
        ),
        5150,
        {
            "front_end.architecture": replace(
                ENCODER, conv_bias=False, relative_positions=(8, 20)
            ).to_text()
        },
    ),
    "deepfense_tcm": Case(
        "DeepFense: a self-supervised front end and TCM",
        ("back_end.conformer_kernel = 16, by the shapes of the layers",),
        5150,
        SMALL_ENCODER,
    ),
    "whisper_mesonet": Case(
        "Whisper-MesoNet's program: features as maps and MesoInception-4",
        (
            "front_end.front_end_class = 'transformers', by the shapes of the layers",
            "back_end.mesonet_pooled = 256, by the shapes of the layers",
            '"encoder_layers": 2',
            "scored, as published: first 480,000 samples",
            "bona fide: its one output",
        ),
        samples=32000,
        learning_rate=1e-3,
    ),
    "whisper_specrnet": of_maps("SpecRNet", "whisper_mfcc"),
    "whisper_lcnn": of_maps("LCNN", "whisper_lfcc"),
    "lfcc_specrnet": of_maps("SpecRNet", "decibel_lfcc"),
}


def file_of(name: str) -> dict[str, Tensor]:
    """Return the layers of a file: the official case's, with counts of batches."""
    state = dict(official_case(name).state)
    for layer in list(state):
        if layer.endswith("running_var"):
            state[layer.replace("running_var", "num_batches_tracked")] = torch.tensor(3)
    if name == "lfcc_lcnn":
        state |= numbers_of_lfcc()
    if name == "deepfense_tcm":
        state["backend.positional_emb"] = positions_of_tcm(24)
    return state


def positions_of_tcm(values: int) -> Tensor:
    """Return the sines and cosines of positions, in float64 by their formula."""
    angles = np.arange(10_000)[:, None] / 10_000 ** (2 * (np.arange(values) // 2) / values)
    waves = np.where(np.arange(values) % 2, np.cos(angles), np.sin(angles))
    return torch.tensor(waves).float().unsqueeze(0)


def numbers_of_lfcc() -> dict[str, Tensor]:
    """Return what the baseline's files hold besides: filters, cosines, and a scaling by nothing."""
    _, bank = triangles(1024, 0, 0.5, 20)
    numbers = {
        "m_frontend.0.lfcc_fb": torch.tensor(bank).float(),
        "m_frontend.0.l_dct.weight": torch.tensor(dct(np.eye(20), norm="ortho").T.copy()).float(),
    }
    for end in ("input", "output"):
        numbers |= {f"{end}_mean": torch.zeros(1), f"{end}_std": torch.ones(1)}
    return numbers


def bona_fide_minus_spoof(name: str, logits: Tensor) -> Tensor:
    """Return the difference of official outputs, by the order that their program gives them."""
    if logits.shape[1] == 1:
        return logits[:, 0]
    first_is_bona_fide = name == "wedefense_mhfa"
    difference = logits[:, 1] - logits[:, 0]
    return -difference if first_is_bona_fide else difference


@pytest.mark.slow_but("wedefense_mhfa", "lfcc_lcnn", "spoof_superb")
@pytest.mark.parametrize("name", CASES)
def test_it_scores_as_the_authors_program(name, tmp_path, capsys):
    case = CASES[name]
    official = official_case(name)
    path = write(file_of(name), tmp_path / "file.pth")
    words = [f"{setting}={value}" for setting, value in case.settings.items()]
    assert main(["import", str(path), str(tmp_path / "net.pt"), *words]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"recognised: {case.layout}\n")
    for line in (*case.said, "missing: nothing\n"):
        assert line in said
    network, _ = read_detector(tmp_path / "net.pt")
    assert not network.training
    lengths = {"logits": official.inputs.shape[1], "short": case.short}
    for key, samples in lengths.items():
        if samples:
            with torch.no_grad():
                logits = network(case.heard(official.inputs[:, :samples]))[1]
            expected = bona_fide_minus_spoof(name, official.outputs[key])
            difference = logits[:, 1] - logits[:, 0]
            torch.testing.assert_close(difference, expected, atol=case.tolerance, rtol=1e-4)


def test_cepstra_that_no_layer_shows_are_asked_for(tmp_path):
    for name, end in (("whisper_lcnn", "whisper"), ("lfcc_specrnet", "decibel")):
        path = write(file_of(name), tmp_path / f"{name}.pth")
        with pytest.raises(AsdfError, match=f"front_end_class={end}_lfcc or .*={end}_mfcc"):
            import_detector(path)
    # Both maps of MesoInception-4: as of the one that is on the hub.
    state = file_of("whisper_mesonet")
    for name, tensor in state.items():
        if name.startswith("Incption1") and tensor.dim() == 4 and tensor.shape[1] == 1:
            state[name] = tensor.repeat(1, 2, 1, 1)
    state["Incption1_conv2_2.weight"] = file_of("whisper_mesonet")["Incption1_conv2_2.weight"]
    read = import_detector(write(state, tmp_path / "two.pth")).recognised
    assert read.settings.front_end.front_end_class == "whisper_mfcc"
    assert any("for LFCCs, front_end.front_end_class=whisper_lfcc" in note for note in read.notes)


@pytest.mark.slow
def test_whisper_mesonet_of_full_size_scores_as_the_authors_program(tmp_path):
    official = official_case("whisper_mesonet_full")
    path = write(file_of("whisper_mesonet_full"), tmp_path / "ckpt.pth")
    imported = import_detector(path, {"front_end.front_end_class": "whisper_lfcc"})
    waveforms_BT = cut_or_repeat(official.inputs, 480_000)
    with torch.no_grad():
        logits = imported.network(waveforms_BT)[1]
    expected = official.outputs["logits"][:, 0]
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], expected, atol=2e-4, rtol=1e-4)


@pytest.mark.slow_but("lfcc_lcnn", "lfcc_specrnet", "wedefense_mhfa")
@pytest.mark.parametrize("name", CASES)
def test_its_weights_go_into_a_network_that_exists(name, tmp_path):
    state = file_of(name)
    path = write(state, tmp_path / "file.pth")
    network = import_detector(path, CASES[name].settings).network
    expected = {layer: tensor.clone() for layer, tensor in network.state_dict().items()}
    for parameter in network.parameters():
        parameter.data.fill_(7)
    left_out = load_detector_weights(network, path)
    torch.testing.assert_close(network.state_dict(), expected, rtol=0, atol=0)
    assert set(left_out) <= set(state)
    first = next(iter(state))
    with pytest.raises(AsdfError, match=r"nothing was loaded|is not a known detector|missing"):
        load_detector_weights(network, write({first: state[first]}, tmp_path / "part.pth"))
    torch.testing.assert_close(network.state_dict(), expected, rtol=0, atol=0)


@pytest.mark.slow_but("lfcc_lcnn", "spoof_superb", "wedefense_mhfa")
@pytest.mark.parametrize("name", CASES)
def test_it_is_given_back(name, tmp_path, capsys):
    """Each tensor is the file's, bit by bit."""
    case = CASES[name]
    state = file_of(name)
    imported = import_detector(write(state, tmp_path / "file.pth"), case.settings)
    write_network_file(tmp_path / "net.pt", imported.file)
    assert main([*EXPORT, str(tmp_path / "back.pth"), str(tmp_path / "net.pt")]) == 0
    # Programs on s3prl have layers of pretraining, and ask for them if they load strictly.
    said = capsys.readouterr().out
    assert ("load with strict=False" in said) == bool(case.lost)
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    # As DeepFense's program reads them.
    assert ("model_state" in back) == name.startswith("deepfense")
    back = back.get("model_state", back)
    computed = {}
    if name == "lfcc_lcnn":
        computed = numbers_of_lfcc()
    elif name.startswith("deepfense"):
        # Their program asks for every layer, also for one that scores do not depend on.
        computed = {"frontend.model.mask_emb": torch.zeros(16)}
        state["frontend.model.mask_emb"] = torch.zeros(16)
    if name == "deepfense_tcm":
        computed["backend.positional_emb"] = state["backend.positional_emb"]
    kept = {layer for layer in state if not layer.startswith(case.lost or ("no layer",))}
    assert back.keys() == kept
    for layer in kept:
        if layer in computed:
            # The authors' positions round angles up to 10,000 to float32.
            tolerance = 1e-3 if "positional" in layer else 1e-6
            torch.testing.assert_close(back[layer], state[layer], atol=tolerance, rtol=0)
        else:
            assert torch.equal(back[layer], state[layer]), layer


# The three networks of RawGAT-ST learn alike, and slowly, and so do those on Whisper's features.
@pytest.mark.slow_but("lfcc_lcnn", "spoof_superb")
@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith(("_add", "_cat"))])
def test_it_is_trained_further(name, tmp_path):
    """After a training the layout is the same, and so are scores."""
    case = CASES[name]
    imported = import_detector(write(file_of(name), tmp_path / "file.pth"), case.settings)
    network = imported.network
    inputs = official_case(name).inputs
    waveforms_BT = case.heard(torch.cat([inputs[:1], inputs[1:].cumsum(1) / 30]))
    labels_B = torch.tensor([0, 1])
    train_further(imported, waveforms_BT, labels_B, case.learning_rate, case.steps)
    write_network_file(tmp_path / "trained.pt", imported.file)
    assert main([*EXPORT, str(tmp_path / "trained.pth"), str(tmp_path / "trained.pt")]) == 0
    retrained = import_detector(tmp_path / "trained.pth", case.settings).network
    with torch.no_grad():
        ours = network(waveforms_BT)[1]
        theirs = retrained(waveforms_BT)[1]
    difference = ours[:, 1] - ours[:, 0]
    torch.testing.assert_close(theirs[:, 1] - theirs[:, 0], difference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_almost_fits_is_refused_in_its_own_names(name, tmp_path):
    case = CASES[name]
    state = file_of(name)
    name_map = name_map_of(state)
    assert name_map in NAME_MAPS
    lost = next(
        layer
        for layer in state
        if layer.endswith(".bias") and layer not in name_map.marks and "upstream" not in layer
    )
    wrong = {layer: tensor for layer, tensor in state.items() if layer != lost}
    wrong["another.layer"] = torch.zeros(2)
    with pytest.raises(AsdfError) as raised:
        import_detector(write(wrong, tmp_path / "file.pth"), case.settings)
    said = str(raised.value)
    assert f"1 missing from the file: {lost}" in said
    assert "1 unknown to the network: another.layer" in said


@pytest.mark.parametrize("name", CASES)
def test_other_outputs_are_refused(name, tmp_path):
    state = file_of(name)
    name_map = name_map_of(state)
    assert name_map is not None
    for ours, conversion in name_map.conversions.items():
        theirs = name_map.their_name(ours)
        assert theirs is not None
        rows = state[theirs]
        wrong = {**state, theirs: torch.cat([rows, rows, rows])}
        found = 3 * conversion.outputs
        with pytest.raises(AsdfError, match=f"the layer {theirs} has {found} outputs, and"):
            import_detector(write(wrong, tmp_path / f"{ours}.pth"), CASES[name].settings)


def test_wavlm_and_masks_go_in_and_out(tmp_path):
    """WavLM's own checkpoint has other names than fairseq's, and projections apart."""
    wavlm = replace(ENCODER, relative_positions=(8, 20))
    settings = {"front_end.architecture": wavlm.to_text(), "front_end.time_mask_proportion": 0.1}
    prefix = "frontend.upstream.upstream.model."
    state = {}
    for name, tensor in file_of("wedefense_mhfa").items():
        if not name.startswith(tuple(prefix + other for other in PRETRAINING[1:])):
            state[name] = tensor
    for layer in range(2):
        attention = f"{prefix}encoder.layers.{layer}.self_attn."
        state[f"{attention}grep_a"] = torch.rand(1, 2, 1, 1)
        state[f"{attention}grep_linear.weight"] = torch.rand(8, 8)
        state[f"{attention}grep_linear.bias"] = torch.rand(8)
    state[f"{prefix}encoder.layers.0.self_attn.relative_attention_bias.weight"] = torch.rand(8, 2)
    imported = import_detector(write(state, tmp_path / "file.pth"), settings)
    embedding = imported.network.front_end.masking.embedding
    assert torch.equal(embedding, state[f"{prefix}mask_emb"])
    write_network_file(tmp_path / "net.pt", imported.file)
    assert main([*EXPORT, str(tmp_path / "back.pth"), str(tmp_path / "net.pt")]) == 0
    back = torch.load(tmp_path / "back.pth", weights_only=True)
    assert back.keys() == state.keys()
    for name, tensor in state.items():
        assert torch.equal(back[name], tensor), name


@pytest.mark.parametrize("setting", ["repeat_last_frame", "normalize_waveforms"])
def test_what_their_program_would_score_otherwise_is_not_written(setting, tmp_path, capsys):
    path = write(file_of("wedefense_mhfa"), tmp_path / "file.pth")
    chosen = {**SMALL_ENCODER, f"front_end.{setting}": False}
    write_network_file(tmp_path / "net.pt", import_detector(path, chosen).file)
    assert main([*EXPORT, str(tmp_path / "back.pth"), str(tmp_path / "net.pt")]) == 1
    said = capsys.readouterr().err
    assert f"compute as with front_end.{setting} = True, but this network was built with" in said
    assert not (tmp_path / "back.pth").exists()


def without(name: str, part: str, **added: Tensor) -> dict[str, Tensor]:
    """Return the layers of a file but those with a part in their names, and further ones."""
    kept = {layer: tensor for layer, tensor in file_of(name).items() if part not in layer}
    return kept | {layer.replace("__", "."): tensor for layer, tensor in added.items()}


FLIPPED = numbers_of_lfcc()["m_frontend.0.lfcc_fb"].flip(1).contiguous()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            without("wedefense_mhfa", "upstream"),
            r"WeDefense's back end alone.*upstream.model.*are missing",
        ),
        (
            {**file_of("lfcc_lcnn"), "m_frontend.0.lfcc_fb": FLIPPED},
            r"layer m_frontend\.0\.lfcc_fb holds other values",
        ),
        # WeDefense also trains margins, which have a matrix and no norm.
        (
            without("wedefense_mhfa", "projection", projection__weight=torch.zeros(2, 7)),
            r"is not a known detector: it holds weights_k \(3\), weights_v \(3\), ",
        ),
        # A one-class softmax has a vector instead of the linear layer. Each toolkit is named once.
        (
            without("deepfense_aasist", "losses", losses__0__mapper__weight=torch.zeros(160, 1)),
            "those of DeepFense, DF-Arena, WeDefense, ",
        ),
        # DeepFense's EAT, whose layers are transformers' of another kind.
        (
            {
                name.replace("frontend.model.", "frontend.model.model.blocks."): tensor
                for name, tensor in file_of("deepfense_mlp").items()
            },
            r"not of the wav2vec 2.0 family.*but frontend\.model\.mod",
        ),
    ],
    ids=["front end", "filters", "margin", "one class", "family"],
)
def test_other_files_are_refused_in_their_own_names(state, said, tmp_path):
    with pytest.raises(AsdfError, match=said):
        import_detector(write(state, tmp_path / "file.pth"), SMALL_ENCODER)


@pytest.mark.parametrize("setting", ["front_end.normalize_waveforms", "spectrum.energy", "class"])
def test_lcnn_on_other_features_is_not_written_as_the_baseline(setting):
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_LCNN"
    settings.front_end.front_end_class = "mfcc" if setting == "class" else "lfcc"
    settings.front_end.normalize_waveforms = setting == "front_end.normalize_waveforms"
    settings.spectrum.centred = True
    settings.spectrum.energy = setting != "spectrum.energy"
    with pytest.raises(
        AsdfError, match=r"program computes features as with front_end\.front_end_cl"
    ):
        authors_state(build_network(settings))


def test_what_was_trained_alone_is_read_with_the_weights_that_it_was_trained_on(tmp_path, capsys):
    """As spoof_SUPERB publishes it: five layers, a megabyte instead of a gigabyte."""
    prefix = "ssl_model.model.upstream.model."
    state = file_of("spoof_superb")
    head = {name: tensor for name, tensor in state.items() if not name.startswith(prefix)}
    encoder = {}
    for name, tensor in state.items():
        if name.startswith(prefix):
            encoder[name.removeprefix(prefix)] = tensor
    assert len(head) == 5
    path = write(head, tmp_path / "head.pth")
    words = [f"front_end.architecture={ENCODER.to_text()}"]
    assert main(["import", str(path), str(tmp_path / "net.pt"), *words]) == 1
    assert "Name the front end's weights after the command" in capsys.readouterr().err
    words.append(f"front_end.weights={write(encoder, tmp_path / 'encoder.pth')}")
    assert main(["import", str(path), str(tmp_path / "net.pt"), *words]) == 0
    assert "front end: " in capsys.readouterr().out
    network, file = read_detector(tmp_path / "net.pt")
    assert file.to_sections().front_end.weights is None
    whole = import_detector(write(state, tmp_path / "whole.pth"), SMALL_ENCODER).network
    torch.testing.assert_close(network.state_dict(), whole.state_dict(), rtol=0, atol=0)


CONFIGURATION = """
data:
  label_map: {bonafide: 1, spoof: 0}
  sampling_rate: 16000
  val:
    base_transform:
    - {max_len: 48000, pad_type: repeat, type: pad}
model:
  backend:
    args: {activation: tanh, input_dim: 16}
    type: MLP
  loss:
  - {embedding_dim: 10, n_classes: 2, type: CrossEntropy, weight: 1.0}
"""


# Each list holds the one before eight times.
BOMB = "".join(f"{b}: &{b} [{', '.join(8 * [f'*{a}'])}], " for a, b in pairwise("abcdefghijk"))


def deepfense_folder(tmp_path):
    """Return the checkpoint of a folder as DeepFense publishes it."""
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    content = {"model_state": file_of("deepfense_mlp"), "optimizer_state": {}, "epoch": 3}
    torch.save(content, tmp_path / "best_model.pth")
    return tmp_path / "best_model.pth"


def test_deepfense_is_scored_as_its_configuration_says(tmp_path):
    pytest.importorskip("yaml")
    path = deepfense_folder(tmp_path)
    read = import_detector(path, CASES["deepfense_mlp"].settings).recognised
    network = read.settings.network
    assert network.max_evaluation_utterance_length_in_samples == 48_000
    assert network.min_evaluation_utterance_length_in_samples == 48_000
    assert network.score == "bona_fide"
    assert read.settings.back_end.deepfense_activation == "tanh"
    assert "how it is scored: by config.yaml next to it" in read.notes
    assert read.left_out["of the training that made it"] == ["optimizer_state", "epoch"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("bonafide: 1", "bonafide: 0", "gives bona fide speech another label than 1"),
        ("sampling_rate: 16000", "sampling_rate: 24000", "recordings have 24000 Hz"),
        ("activation: tanh", "pool_ratios: [0.5]", r"pool_ratios = \[0.5\]"),
        ("sampling_rate: 16000", "sampling_rate: [16000, 1]", r"have \[16000, 1\] Hz"),
        ("activation: tanh", "activation: nope", "deepfense_activation does not accept"),
        ("data:", "made: 2001-99-99\ndata:", "cannot be read as the configuration"),
        # Four thousand million values, if somebody wrote them all out.
        ("activation: tanh", f"a: &a [1], {BOMB}pool_ratios: [*k, *k, *k, *k]", "pool_ratios = "),
        ("data:", "data: [", "cannot be read as the configuration of DeepFense"),
    ],
)
def test_what_deepfense_would_score_otherwise_is_refused(old, new, said, tmp_path):
    pytest.importorskip("yaml")
    path = deepfense_folder(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(AsdfError, match=said):
        import_detector(path, CASES["deepfense_mlp"].settings)


def test_a_file_with_the_head_of_a_classifier_leads_to_its_folder(tmp_path):
    layers = {
        "projector.weight": torch.zeros(3, 4),
        "classifier.weight": torch.zeros(2, 3),
        "wav2vec2.encoder.layer_norm.weight": torch.ones(4),
    }
    path = write(layers, tmp_path / "state.pth")
    with pytest.raises(AsdfError, match=r"only be read from its folder: config\.json"):
        import_detector(path)
    # One for speakers has such layers, too, and others.
    layers["tdnn.0.kernel.weight"] = torch.zeros(3, 3)
    with pytest.raises(AsdfError) as raised:
        import_detector(write(layers, tmp_path / "speakers.pth"))
    assert "from its folder" not in str(raised.value)


def test_a_missing_package_is_named_and_the_defaults_are_taken(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    read = import_detector(deepfense_folder(tmp_path), CASES["deepfense_mlp"].settings).recognised
    assert any("needs the package pyyaml, pip install" in note for note in read.notes)
    assert read.settings.network.max_evaluation_utterance_length_in_samples == 64_000


@pytest.mark.parametrize("kind", [*LAYOUTS])
def test_a_layout_is_recognised_as_no_other(kind):
    """RawNet2 and SpecRNet, and all AASISTs, share most of their names."""
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{kind}"
    settings.front_end.architecture = "tiny"
    settings.front_end.normalize_waveforms = kind == "SSL_Linear"
    map_of_kind = name_maps_by_kind().get(kind)
    if map_of_kind is not None:
        assign(settings, dict(map_of_kind.settings))
        if map_of_kind.front_ends:
            settings.front_end.front_end_class = "decibel_lfcc"
        elif map_of_kind.front_end:
            architecture = Architecture.from_text("tiny")
            settings.front_end.normalize_waveforms = map_of_kind.scales(architecture)
    with without_numbers():
        network = build_network(settings)
        if map_of_kind is None:
            names = list(authors_state(network)[0])
        else:
            names = list(named_state(network))
    assert name_map_of(names) is map_of_kind
