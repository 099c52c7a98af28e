"""`export`: what other systems load, and back again bit by bit."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import asdf.networks
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_safetensors
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.published import published_state
from asdf.interchange import read_network
from asdf.networks.build import build_network
from asdf.networks.front_ends.architectures import KNOWN
from asdf.settings.sections import Lora, Sections
from asdf.tasks.tracing.task import build_source_term
from asdf.trials.trial_list import TrialList
from tests.unit.networks.official import official_case

CLIP = 16000


def settings_of(kind: str) -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{kind}"
    settings.front_end.architecture = "tiny"
    settings.back_end.sls_samples, settings.back_end.sls_hidden = 6000, 32
    settings.back_end.nes2net_splits = (4, 4)
    settings.back_end.conformer_dimension = 16
    settings.back_end.lcnn_projection = 32
    settings.back_end.resnet_projection = 20
    settings.back_end.rawnet2_recurrent = 16
    settings.paths.output_folder = "/home/someone/runs"
    settings.recipe.training_sets = ("asvspoof5",)
    return settings


@pytest.fixture
def make(tmp_path):
    """Write a network of a class, whose every number is drawn, to `networks/epoch.3.pt`."""

    def make(
        kind: str, settings: Sections | None = None, **entries: object
    ) -> tuple[nn.Module, Path]:
        settings = settings or settings_of(kind)
        torch.manual_seed(0)
        network = getattr(asdf.networks, kind)(settings)
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.add_(0.01 * torch.randn_like(tensor))
        path = tmp_path / "networks" / "epoch.3.pt"
        write_network_file(path, NetworkFile.from_network(network, settings, **entries))
        return network.eval(), path

    return make


@pytest.fixture
def run(capsys):
    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run


def same(read: nn.Module, network: nn.Module) -> None:
    assert type(read) is type(network)
    torch.testing.assert_close(read.state_dict(), network.state_dict(), rtol=0, atol=0)


PUBLISHED = ("AASIST", "AASIST_L", "SLS", "Nes2NetX", "Conformer", "ConformerTCM")


@pytest.mark.slow_but(
    "SSL_AASIST-ssl_anti_spoofing",
    "SSL_Nes2NetX-ssl_anti_spoofing",
    "SSL_Conformer-ssl_anti_spoofing",
    "AASIST_L-aasist",
    "RawNet2-rawnet2",
)
@pytest.mark.parametrize(
    ("kind", "layout"),
    [
        *((f"SSL_{kind}", "ssl_anti_spoofing") for kind in PUBLISHED),
        ("AASIST", "aasist"),
        ("AASIST_L", "aasist"),
        ("RawNet2", "rawnet2"),
    ],
)
def test_export_then_import_is_the_identity(kind, layout, make, run, tmp_path):
    network, path = make(kind)
    status, said, _ = run("export", path, "--format", layout, tmp_path / "published.pth")
    assert status == 0 and f"asdf.networks.{kind}" in said
    words = ["front_end.architecture=tiny", "back_end.sls_samples=6000"]
    words = words if kind.startswith("SSL_") else []
    assert run("import", tmp_path / "published.pth", tmp_path / "net.pt", *words)[0] == 0
    same(read_network(tmp_path / "net.pt")[0], network)


@pytest.mark.parametrize("group_norm", [False, True])
def test_the_published_names_are_those_of_published_files(group_norm, make, run, tmp_path):
    settings = settings_of("SSL_AASIST")
    layer_norm = replace(KNOWN["tiny"], extractor_mode="layer_norm", conv_bias=True).to_text()
    settings.front_end.architecture = "tiny" if group_norm else layer_norm
    _, path = make("SSL_AASIST", settings)
    assert run("export", path, "--format", "ssl_anti_spoofing", tmp_path / "published.pth")[0] == 0
    names = set(torch.load(tmp_path / "published.pth", weights_only=True))
    layers = f"""
        feature_extractor.conv_layers.0.2.{"weight" if group_norm else "1.weight"}
        encoder.pos_conv.0.weight_g encoder.pos_conv.0.weight_v encoder.layers.0.fc1.weight
        encoder.layers.1.self_attn.k_proj.weight encoder.layers.1.self_attn_layer_norm.bias
        encoder.layers.0.final_layer_norm.weight encoder.layer_norm.weight
        post_extract_proj.bias layer_norm.weight
    """
    back_end = {"LL.weight", "GAT_layer_S.att_weight", "first_bn1.running_var", "out_layer.bias"}
    assert {*back_end, *(f"ssl_model.model.{name}" for name in layers.split())} <= names


def test_of_xlsr_every_published_layer_is_there():
    """Without pretraining's layers the published programs refuse the file.

    317,390,592 is the published number of parameters of XLS-R.
    """
    settings = settings_of("SSL_AASIST")
    settings.front_end.architecture = "wav2vec2_xlsr_300m"
    with torch.device("meta"):
        network = asdf.networks.SSL_AASIST(settings)
    state, filled = published_state(network)
    numbers = {name: tensor.numel() for name, tensor in state.items()}
    front_end = [numbers[name] for name in numbers if name.startswith("ssl_model.model.")]
    assert sum(front_end) == 317_390_592 and len(filled) == 8
    assert all(not state[name].any() for name in filled)
    settings.front_end.architecture = "small"
    assert published_state(asdf.networks.SSL_AASIST(settings))[1] == []


def test_the_authors_of_nes2net_x_keep_its_back_end_in_a_module_of_its_own():
    state, _ = published_state(build_network(settings_of("SSL_Nes2NetX")))
    layers = [name for name in state if not name.startswith("ssl_model.model.")]
    assert layers and all(name.startswith("Nested_Res2Net_TDNN.") for name in layers)


def test_tcms_positions_are_in_its_layout(make, run, tmp_path):
    """The published program loads strictly."""
    _, path = make("SSL_ConformerTCM")
    assert run("export", path, "--format", "ssl_anti_spoofing", tmp_path / "tcm.pth")[0] == 0
    state = torch.load(tmp_path / "tcm.pth", weights_only=True)
    expected = official_case("conformer_tcm").outputs["positions"]
    held = state["conformer.positional_emb"]
    assert held.shape == (1, 10_000, 16)
    torch.testing.assert_close(held[0, ::700], expected, atol=1e-6, rtol=0)


def weighted() -> Sections:
    settings = settings_of("SSL_AASIST")
    settings.front_end.layer = "weighted"
    return settings


REFUSALS = [
    ("AASIST", "ssl_anti_spoofing", [], 1, "AASIST has no layout ssl_anti_spoofing"),
    ("SSL_ASP", "ssl_anti_spoofing", [], 1, "SSL_ASP has no layout ssl_anti_spoofing"),
    ("SSL_AASIST", "aasist", [], 1, "SSL_AASIST has no layout aasist"),
    ("AASIST", "rawnet2", [], 1, "AASIST has no layout rawnet2"),
    ("weighted", "ssl_anti_spoofing", [], 1, "has no layer for front_end.layer_sum.weights"),
    ("AASIST_L", "hub", ["--samples", "800"], 2, "applies to onnx, torchscript; hub has"),
    ("SSL_SLS", "torchscript", ["--samples", CLIP], 2, "SSL_SLS takes 6000 samples only"),
]


@pytest.mark.parametrize(("kind", "layout", "words", "status", "said"), REFUSALS)
def test_what_a_layout_cannot_hold_is_refused(
    kind, layout, words, status, said, make, run, tmp_path
):
    _, path = make("SSL_AASIST", weighted()) if kind == "weighted" else make(kind)
    ended, _, errors = run("export", path, "--format", layout, tmp_path / "out.pth", *words)
    assert ended == status and said in errors
    assert not (tmp_path / "out.pth").exists()


def test_a_class_of_ones_own_is_exported_if_its_layers_are_published(make, run, tmp_path):
    network, path = make("AASIST_L")
    own = "from asdf.networks import AASIST_L\n\nclass Mine(AASIST_L): ...\n"
    other = "from torch import nn\n\nclass SSL_SLS(nn.Linear):\n"
    other += "    def __init__(self, settings):\n        super().__init__(2, 2)\n"
    (tmp_path / "derived_network_of_a_test.py").write_text(own + other)
    settings = settings_of("AASIST_L")
    words = ["--network-folder", tmp_path, tmp_path / "net.pth", "--format"]
    settings.network.network_class = "derived_network_of_a_test.Mine"
    write_network_file(path, NetworkFile.from_network(network, settings))
    assert run("export", path, *words, "aasist")[0] == 0
    held = torch.load(tmp_path / "net.pth", weights_only=True)
    torch.testing.assert_close(held, network.state_dict(), rtol=0, atol=0)
    settings.network.network_class = "derived_network_of_a_test.SSL_SLS"
    write_network_file(path, NetworkFile.from_network(nn.Linear(2, 2), settings))
    (tmp_path / "net.pth").unlink()
    status, _, errors = run("export", path, *words, "ssl_anti_spoofing")
    assert status == 1 and "SSL_SLS has no published layout" in errors


def test_a_frame_level_head_is_exported_whole_or_not_at_all(make, run, tmp_path):
    settings = settings_of("SSL_Linear")
    settings.localisation.enabled = True
    network, path = make("SSL_Linear", settings)
    status, _, errors = run("export", path, "--format", "antideepfake", tmp_path / "out.pth")
    assert status == 2 and "the network has a frame-level head" in errors
    assert run("export", path, "--format", "safetensors", tmp_path / "out.safetensors")[0] == 0
    again, _ = read_network(tmp_path / "out.safetensors")
    waveforms_BT = torch.randn(1, CLIP)
    with torch.no_grad():
        expected = network.eval()(waveforms_BT).extras["frames"]
        assert torch.equal(again.eval()(waveforms_BT).extras["frames"], expected)
    status, output, _ = run("export", path, "--format", "torchscript", tmp_path / "out.ts")
    assert status == 0 and "utterance scores only, without the scores of frames" in output
    with torch.no_grad():
        graph = torch.jit.load(tmp_path / "out.ts")
        ones = torch.ones(1, 64600)
        torch.testing.assert_close(graph(ones)[1], network(ones).logits_B2)


def test_a_network_that_traces_sources_has_no_published_layout_and_a_graph_without_them(
    run, tmp_path
):
    pytest.importorskip("onnx", reason="in the test extra")
    runtime = pytest.importorskip("onnxruntime", reason="in the test extra")
    settings = settings_of("SSL_Linear")
    settings.source.column = "attack"
    columns = {"attack": ["A01", "A02"]}
    trials = TrialList(["a", "b"], np.zeros(2, np.int8), columns=columns)

    def write(localisation: bool) -> nn.Module:
        settings.localisation.enabled = localisation
        network = asdf.networks.SSL_Linear(settings)
        build_source_term(network, trials, settings)
        write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
        return network.eval()

    network = write(localisation=True)
    words = ("--format", "onnx", tmp_path / "net.onnx", "--samples", CLIP)
    status, output, _ = run("export", tmp_path / "net.pt", *words)
    assert status == 0 and "utterance scores only, without the values of 'sources'" in output
    waveforms_BT = 0.1 * torch.randn(2, CLIP)
    session = runtime.InferenceSession(tmp_path / "net.onnx")
    (logits,) = session.run(["logits"], {"waveforms": waveforms_BT.numpy()})
    with torch.no_grad():
        expected = network(waveforms_BT).logits_B2
    torch.testing.assert_close(torch.from_numpy(logits), expected, atol=1e-4, rtol=1e-4)
    write(localisation=False)
    words = ("--format", "antideepfake", tmp_path / "net.pth")
    status, _, errors = run("export", tmp_path / "net.pt", *words)
    assert status == 2 and "has a head of 'sources'" in errors


def test_the_published_layout_is_refused_for_updates_that_are_not_merged():
    settings = settings_of("SSL_AASIST")
    settings.lora = Lora(rank=2)
    with pytest.raises(AsdfError, match=r"updates \(lora.rank\), which are not merged"):
        published_state(build_network(settings))


@pytest.mark.parametrize("kind", ["SSL_MHFA", "AASIST_L"])
@pytest.mark.parametrize("layout", ["safetensors", "hub"])
def test_safetensors_and_folders_are_networks(kind, layout, make, run, tmp_path):
    calibration = {"scale": 2.0, "offset": 0.125, "threshold": 0.5}
    network, path = make(kind, calibration=calibration, optimiser_state={"state": {}})
    out = tmp_path / ("net.safetensors" if layout == "safetensors" else "net")
    assert run("export", path, "--format", layout, out)[0] == 0
    read, file = read_network(out)
    same(read, network)
    assert file.calibration == calibration and file.optimiser_state is None
    settings = file.to_sections()
    expected = read_network(path)[1].to_sections()
    assert settings.paths.output_folder is None
    settings.paths = expected.paths
    assert settings == expected
    assert run("import", out, tmp_path / "again.pt")[0] == 0
    again, file = read_network(tmp_path / "again.pt")
    same(again, network)
    assert file.calibration == calibration


def test_the_folder_of_a_hub(make, run, tmp_path):
    last = {"step": 9, "eer": {"dev": 0.0125}, "scoring_precision": "bf16"}
    evaluations = [{"step": 3, "eer": {"dev": 0.5}}, last]
    _, path = make("AASIST_L", progress={"step": 9, "evaluations": evaluations})
    rows = [
        {"epoch": "epoch.3", "set": "asvspoof5-eval", "eer": 0.04, "scoring_precision": "fp32"},
        {"epoch": "epoch.2", "set": "x", "eer": 0.3},
    ]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text(json.dumps(rows))
    status, said, _ = run("export", path, "--format", "hub", tmp_path / "card")
    assert status == 0 and "with 2 measured EERs" in said
    assert sorted(file.name for file in (tmp_path / "card").iterdir()) == [
        "README.md", "config.json", "model.safetensors"]  # fmt: skip
    card = (tmp_path / "card" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: asdf\n") and "# card\n" in card
    assert "| dev, in bf16 | 1.250 |\n| asvspoof5-eval | 4.000 |" in card
    assert "| x |" not in card and "50.000" not in card
    assert "## Training data\n\nasvspoof5\n" in card and "85,306 parameters" in card
    assert "someone" not in card + (tmp_path / "card" / "config.json").read_text()
    config = json.loads((tmp_path / "card" / "config.json").read_text())
    assert (config["format"], config["network_class"]) == ("asdf", "asdf.networks.AASIST_L")
    assert "someone" not in str(read_safetensors(tmp_path / "card" / "model.safetensors")[1])

    # The folder of the run stands for its best network, and for its results.
    (tmp_path / "settings.py").write_text("# Settings of config net\n")
    record = {"kind": "evaluation", "step": 9, "epoch": 3, "network": "epoch.3.pt"}
    (tmp_path / "metrics.jsonl").write_text(json.dumps({**record, "eer": {"dev": 0.0125}}) + "\n")
    status, said, _ = run("export", tmp_path, "--format", "hub", tmp_path / "run")
    assert status == 0 and "with 2 measured EERs" in said


def test_a_card_says_what_training_did_without_and_what_is_not_known(make, run, tmp_path):
    settings = settings_of("AASIST_L")
    settings.recipe.leave_out = ("attack", "A07", "A08")
    _, path = make("AASIST_L", settings, progress={"step": 9})
    assert run("export", path, "--format", "hub", tmp_path / "left out")[0] == 0
    card = (tmp_path / "left out" / "README.md").read_text()
    assert "## Training data\n\nasvspoof5, without utterances of attack A07, A08\n" in card
    _, path = make("AASIST_L")
    assert "no measured EERs" in run("export", path, "--format", "hub", tmp_path / "card")[1]
    card = (tmp_path / "card" / "README.md").read_text()
    assert "Not stated in the file that this was made from." in card
    assert "No measured error rates" in card and "asvspoof5" not in card


def test_a_folder_of_another_program_and_damaged_metadata_are_reported(make, run, tmp_path):
    _, path = make("AASIST_L")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"model_type": "wavlm"}')
    status, _, errors = run("export", tmp_path / "other", "--format", "hub", tmp_path / "card")
    assert status == 1 and "holds no weights: none of" in errors
    status, _, errors = run("export", path, "--format", "hub", path)
    assert status == 2 and "exists already" in errors


KINDS = ["AASIST_L", "SSL_AASIST", "normalising", "SSL_SLS", "WavLM", "SSL_Linear", "RawNet2"]
KINDS += ["SSL_Conformer", "SSL_ConformerTCM", "SSL_LCNN", "SSL_ResNet18", "SSL_ECAPA"]
KINDS += ["SSL_Mamba", "SSL_WeDefenseMHFA", "SSL_SpectraAASIST", "SSL_SpectraAASIST3"]
KINDS += ["SSL_SpectraECAPA", "SSL_DeepFenseAASIST", "SSL_DeepFenseNes2Net", "SSL_DeepFenseMLP"]
KINDS += ["SSL_MesoNet", "SSL_SpecRNet", "SSL_MapLCNN", "RawGAT_ST"]
# Numbers that are drawn move the knots of its splines, which then double roundings.
OF_ANY_LENGTH = [kind for kind in KINDS if kind != "SSL_SpectraAASIST3"]


# The one length that a network takes, where it takes no other.
ONLY = {"SSL_SLS": 6000, "RawGAT_ST": 64600}


def graph_network(kind: str, make) -> tuple[nn.Module, Path]:
    if kind == "normalising":
        settings = settings_of("SSL_AASIST")
        settings.front_end.normalize_waveforms = True
        return make("SSL_AASIST", settings)
    if kind != "WavLM":
        return make(kind)
    settings = settings_of("SSL_MHFA")
    settings.front_end.architecture = replace(KNOWN["tiny"], relative_positions=(32, 80)).to_text()
    return make("SSL_MHFA", settings)


@pytest.mark.slow_but("SSL_AASIST")
@pytest.mark.parametrize("kind", KINDS)
def test_torchscript_runs_without_asdf(kind, make, run, tmp_path):
    network, path = graph_network(kind, make)
    words = [] if kind in ONLY else ["--samples", CLIP]
    status, said, _ = run("export", path, "--format", "torchscript", tmp_path / "net.ts", *words)
    samples = ONLY.get(kind, CLIP)
    assert status == 0 and "differs from" in said
    assert f"takes waveforms (batch, {samples}) at 16 kHz" in said
    graph = torch.jit.load(tmp_path / "net.ts")
    waveforms = 0.1 * torch.randn(3, samples)
    with torch.no_grad():
        torch.testing.assert_close(graph(waveforms), network(waveforms), atol=1e-4, rtol=0)
        exported = "the number of samples that the network was exported for"
        with pytest.raises(torch.jit.Error, match=exported):
            graph(0.1 * torch.randn(3, samples + 320))


@pytest.fixture
def onnx_session():
    """Open an ONNX graph, as a program without torch does."""
    pytest.importorskip("onnx", reason="in the test extra")
    runtime = pytest.importorskip("onnxruntime", reason="in the test extra")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return lambda path: runtime.InferenceSession(path, options)


def check_onnx(session, network, batch: int, samples: int) -> None:
    generator = torch.Generator().manual_seed(samples)
    waveforms = 0.1 * torch.randn(batch, samples, generator=generator)
    with torch.no_grad():
        expected = network(waveforms)
    got = session.run(["embeddings", "logits"], {"waveforms": waveforms.numpy()})
    torch.testing.assert_close(tuple(map(torch.from_numpy, got)), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.slow_but("SSL_AASIST")
@pytest.mark.parametrize("kind", OF_ANY_LENGTH)
def test_onnx_runs_without_torch_on_any_length(kind, make, run, tmp_path, onnx_session):
    """At lengths that the export does not check: other numbers of nodes, repeats, one frame."""
    network, path = graph_network(kind, make)
    status, said, err = run("export", path, "--format", "onnx", tmp_path / "net.onnx")
    assert (status, err) == (0, ""), err
    assert "takes waveforms (batch, samples), of any length, at 16 kHz" in said
    # What a network with many poolings, or Spectra, repeats recordings to is among them.
    lengths = ["9,001", "15,999", "20,011"]
    if kind == "SSL_MesoNet":
        lengths.insert(1, "10,320")
    elif kind == "SSL_SpecRNet":
        lengths.append("20,560")
    elif "Spectra" in kind:
        lengths.append("21,533")
    listed = ", ".join([*lengths, "64,600"])
    assert f"{listed} and 70,001 samples: differs from the network by" in said
    session = onnx_session(tmp_path / "net.onnx")
    for batch, samples in ((4, 16000), (1, 50), (2, 700), (1, 2316), (1, 19999)):
        check_onnx(session, network, batch, samples)
    if kind == "SSL_Conformer":
        # More than 512 frames, from which on distances are alike.
        check_onnx(session, network, 1, 180_000)


@pytest.mark.slow_but("SSL_SLS")
@pytest.mark.parametrize("kind", ["SSL_AASIST", "SSL_SLS", "SSL_SpectraAASIST3"])
def test_onnx_of_one_length_takes_no_other(kind, make, run, tmp_path, onnx_session):
    network, path = graph_network(kind, make)
    words = ["--format", "onnx", tmp_path / "net.onnx", "--samples", 6000]
    status, said, err = run("export", path, *words)
    assert (status, err) == (0, ""), err
    assert "takes waveforms (batch, 6000) at 16 kHz" in said
    assert "run on 3 waveforms: differs from the network by" in said
    session = onnx_session(tmp_path / "net.onnx")
    for batch in (1, 4):
        check_onnx(session, network, batch, 6000)
    with pytest.raises(Exception, match="invalid dimensions"):
        session.run(None, {"waveforms": torch.zeros(1, 6320).numpy()})


OWN = """
import torch
class Net(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.layer = torch.nn.Linear(1, 2)

    def forward(self, waveforms):
"""
BY_LENGTH = """
        first = waveforms[:, : int(0.5 * waveforms.shape[1])]
        means = first.square().mean(1, keepdim=True)
        return means, self.layer(means)
"""
BRANCHING = """
        means = waveforms.mean(1, keepdim=True)
        if means.sum() > self.layer.weight.new_zeros(1).item() and len(waveforms) == 2:
            return means, self.layer(means)
        return -means, -self.layer(means)
"""
NOT_A_NUMBER = """
        logits = self.layer(waveforms.mean(1, keepdim=True))
        return waveforms[:, :1], logits - logits * float("inf")
"""


def write_own_network(folder: Path, module: str, forward: str) -> None:
    (folder / f"{module}.py").write_text(OWN + forward)
    settings = Sections()
    settings.network.network_class = f"{module}.Net"
    own = nn.ModuleDict({"layer": nn.Linear(1, 2)})
    write_network_file(folder / "net.pt", NetworkFile.from_network(own, settings))


def test_a_graph_that_is_wrong_at_other_lengths_is_written_for_one(run, tmp_path, onnx_session):
    """A tracer takes half of the length that it sees for a constant."""
    write_own_network(tmp_path, "halving_network_of_a_test", BY_LENGTH)
    words = ["--format", "onnx", tmp_path / "net.onnx", "--network-folder", tmp_path]
    status, said, _ = run("export", tmp_path / "net.pt", *words)
    assert status == 0
    assert "takes waveforms (batch, 64600) at 16 kHz" in said
    assert "of one length: the exported graph of Net differs from the network" in said
    with pytest.raises(Exception, match="invalid dimensions"):
        onnx_session(tmp_path / "net.onnx").run(None, {"waveforms": torch.zeros(1, 9001).numpy()})


def test_a_graph_that_gives_other_numbers_is_not_written(run, tmp_path):
    write_own_network(tmp_path, "branching_network_of_a_test", BRANCHING)
    words = ["export", tmp_path / "net.pt", "--format", "torchscript", tmp_path / "net.ts"]
    words += ["--samples", 500]
    status, _, errors = run(*words)
    said = "is of the class branching_network_of_a_test.Net, which is not part of asdf.networks"
    assert status == 1 and said in errors
    status, _, errors = run(*words, "--network-folder", tmp_path)
    assert status == 1 and "differs from the network" in errors
    assert not (tmp_path / "net.ts").exists()


@pytest.mark.parametrize("layout", ["torchscript", "onnx"])
def test_a_graph_whose_logits_are_nan_is_not_written(layout, run, tmp_path):
    """No comparison with NaN is true, and only the embeddings differ by a number."""
    pytest.importorskip("onnxruntime")
    write_own_network(tmp_path, f"{layout}_of_nan_of_a_test", NOT_A_NUMBER)
    out = tmp_path / "graph"
    words = ["export", tmp_path / "net.pt", "--format", layout, out, "--samples", 500]
    status, _, errors = run(*words, "--network-folder", tmp_path)
    assert status == 1
    assert "the exported graph of Net differs from the network" in errors
    assert "nothing was written" in errors and not out.exists()
