"""Each published layout scores alike in every file that a training program makes of its layers.

Invariant of the contract: keys, prefixes and counts of a checkpoint change neither a layer, nor a
setting such as the scored length and the front end's, nor a note of `import`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.importing import Imported, import_detector
from asdf.extras.zoo.layouts.published import authors_state
from asdf.networks import build_network
from asdf.networks.front_ends.architectures import KNOWN
from asdf.settings.sections import Sections
from tests.extras.zoo import test_name_maps, test_published_layouts
from tests.extras.zoo.antideepfake_cases import make_case
from tests.extras.zoo.test_df_arena import SMALL as SMALL_DF_ARENA
from tests.unit.networks.official import official_case

TINY = {"front_end.architecture": KNOWN["tiny"].to_text()}
LAYOUTS = (
    *("AASIST", "AASIST_L", "SSL_AASIST", "SSL_AASIST_L", "SSL_SLS", "SSL_Nes2NetX"),
    *("SSL_Conformer", "SSL_ConformerTCM"),
    *test_published_layouts.CASES,
    *test_name_maps.CASES,
    *("RawNet2", "DF-Arena", "AntiDeepfake", "AntiDeepfake of one class"),
)
COUNT = "num_batches_tracked"


def detector_of(layout: str) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Return the layers of a small detector under published names, and what no layer shows."""
    if layout in test_published_layouts.CASES:
        case = test_published_layouts.CASES[layout]
        return test_published_layouts.layers_of(case), case.settings
    if layout in test_name_maps.CASES:
        return test_name_maps.file_of(layout), test_name_maps.CASES[layout].settings
    if layout.startswith("AntiDeepfake"):
        small = make_case("layer norm", one_class=layout.endswith("one class"))
        return small.state(), {"front_end.architecture": small.architecture}
    if layout == "DF-Arena":
        return with_counts(official_case("df_arena").state), SMALL_DF_ARENA
    if layout == "RawNet2":
        return with_counts(official_case("rawnet2").state), {"back_end.rawnet2_taps": 32}
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{layout}"
    settings.front_end.architecture = "tiny"
    torch.manual_seed(0)
    return authors_state(build_network(settings))[0], TINY if "SSL" in layout else {}


def with_counts(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return layers with the number of batches that each batch norm saw, as files have it."""
    norms = [name.removesuffix("running_var") for name in state if name.endswith("running_var")]
    return state | {norm + COUNT: torch.tensor(3) for norm in norms}


def prefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in state.items()}


def averaged(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the layers as torch's AveragedModel saves them."""
    return {"n_averaged": torch.tensor(5), **prefixed("module.", state)}


def files_of(state: dict[str, Tensor], folder: Path) -> list[Path]:
    """Write the layers in the ways of training programs."""
    training = {"optimizer_state_dict": {"state": {}, "param_groups": []}, "epoch": 5}
    contents = {
        "tutorial": {"model_state_dict": state, **training},
        "lightning": {"state_dict": prefixed("model.", state), "pytorch-lightning_version": "2"},
        "compiled": {"model": prefixed("_orig_mod.", state), "scaler": {"scale": 2.0}},
        "compiled_ddp": {"net": prefixed("module._orig_mod.", state), **training},
        "ddp_compiled": prefixed("_orig_mod.module.", state),
        "compiled_lightning": {"state_dict": prefixed("_orig_mod.model.", state)},
        "lightning_compiled": {"state_dict": prefixed("model._orig_mod.module.", state)},
        # Of parts of a network, and next to its options under another usual key.
        "compiled_parts": {
            "model": {"name": "detector", "width": 64},
            "model_state_dict": {
                name.replace(".", "._orig_mod.", 1): each for name, each in state.items()
            },
        },
        "in_its_task": {"task_weights": prefixed("task.detector.", state), **training},
        "averaged": averaged(state),
        "averaged_in_lightning": {"state_dict": prefixed("model.", averaged(state))},
        "averaged_under_model": {"model": averaged(prefixed("model.", state)), **training},
        "without_counts": {name: layer for name, layer in state.items() if COUNT not in name},
    }
    paths = []
    for name, content in contents.items():
        paths.append(folder / f"{name}.pth")
        torch.save(content, paths[-1])
    for number, prefix in enumerate(("", "module.", "model.", "_orig_mod.model.")):
        layers = prefixed(
            prefix, {name: layer.clone().contiguous() for name, layer in state.items()}
        )
        paths.append(folder / f"{number}.safetensors")
        save_file(layers, paths[-1])
        paths.append(folder / f"folder {number}")
        paths[-1].mkdir()
        save_file(layers, paths[-1] / "model.safetensors")
        (paths[-1] / "config.json").write_text("{}")
    return paths


def described(read: Imported) -> tuple[object, ...]:
    """Return all of a detector that its scores depend on, but its weights."""
    recognised = read.recognised
    notes = [note for note in recognised.notes if "next to it" not in note]
    return recognised.layout, notes, read.file.settings, recognised.loss


@pytest.mark.slow_but("AASIST_L", "AntiDeepfake")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_the_same_detector_in_any_checkpoint(layout, tmp_path):
    state, settings = detector_of(layout)
    torch.save(state, tmp_path / "alone.pth")
    alone = import_detector(tmp_path / "alone.pth", settings)
    layers = {
        name: layer for name, layer in alone.network.state_dict().items() if COUNT not in name
    }
    for path in files_of(state, tmp_path):
        read = import_detector(path, settings)
        assert described(read) == described(alone), path.name
        held = read.network.state_dict()
        other = [name for name, layer in layers.items() if not torch.equal(held[name], layer)]
        assert (path.name, other) == (path.name, [])


@pytest.mark.parametrize("form", ["hub", "transformers"])
def test_a_folder_of_asdf_keeps_its_own_length(form, tmp_path):
    """Its layers have a prefix, too; its settings count more than what is published."""
    state, _ = detector_of("AASIST_L")
    torch.save(state, tmp_path / "net.pth")
    longest = "network.max_evaluation_utterance_length_in_samples"
    own = import_detector(tmp_path / "net.pth", {longest: 80_000})
    write_network_file(tmp_path / "net.pt", own.file)
    words = ["export", str(tmp_path / "net.pt"), "--format", form, str(tmp_path / "folder")]
    assert main(words) == 0
    read = import_detector(tmp_path / "folder")
    assert read.recognised.layout == "a network of ASDF"
    assert read.file.to_sections().network == own.file.to_sections().network


def test_the_parts_of_a_detector_are_not_guessed(tmp_path):
    """Two networks in one file, and a prefix that one layer lacks, are refused."""
    state, _ = detector_of("AASIST_L")
    torch.save({"student": state, "teacher": state}, tmp_path / "two.pth")
    with pytest.raises(AsdfError, match="holds no tensors, only student, teacher"):
        import_detector(tmp_path / "two.pth")
    torch.save(prefixed("model.", state) | {"criterion": torch.ones(2)}, tmp_path / "loss.pth")
    with pytest.raises(AsdfError, match=r"is not a known detector: it holds model\."):
        import_detector(tmp_path / "loss.pth")
    # A whole and a compiled copy: neither is dropped for the other.
    torch.save(state | prefixed("_orig_mod.", state), tmp_path / "copies.pth")
    with pytest.raises(AsdfError, match="unknown to the network: _orig_mod"):
        import_detector(tmp_path / "copies.pth")
