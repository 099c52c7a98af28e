"""Network files, and weights of other systems, in and out.

The names below are the door of this room; they are imported when they are first used, since torch
takes seconds to import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.interchange.antideepfake import antideepfake_state, has_one_class
    from asdf.interchange.base import find_base
    from asdf.interchange.building import build_for
    from asdf.interchange.download import bundle_architecture, download_bundle
    from asdf.interchange.fitting import by_module, check_layers, load_layers
    from asdf.interchange.fused_file import (
        FusedNetwork,
        FusedSystem,
        check_network,
        describe_networks,
        is_fused_file,
        locate_network,
        read_fused_file,
        write_fused_file,
    )
    from asdf.interchange.graphs import samples_for, write_torchscript
    from asdf.interchange.hub import write_hub_folder, write_safetensors_network
    from asdf.interchange.importing import Imported, import_detector
    from asdf.interchange.model_card import measured_eers, model_card_text
    from asdf.interchange.named_weights import bytes_to_fetch, names_path, pin_weights
    from asdf.interchange.network_file import NETWORK_SECTIONS, NetworkFile, write_network_file
    from asdf.interchange.network_reading import (
        fill_for_scoring,
        fill_network,
        read_network,
        read_network_file,
    )
    from asdf.interchange.onnx_graphs import onnx_graph, write_onnx
    from asdf.interchange.opening import describe_source, find_network, note_source, read_detector
    from asdf.interchange.pretrained import build_front_end, build_pretrained, load_pretrained
    from asdf.interchange.published import (
        aasist_state,
        load_detector_weights,
        published_state,
        rawnet2_state,
    )
    from asdf.interchange.recognition import Recognised, recognise
    from asdf.interchange.safetensors import write_safetensors
    from asdf.interchange.weights_digest import digest_in_memory, network_digest, note_file
    from asdf.interchange.weights_file import write_weights_file

# Names by the files that define them.
_HOMES = {
    "antideepfake": ("antideepfake_state", "has_one_class"),
    "base": ("find_base",),
    "building": ("build_for",),
    "download": ("bundle_architecture", "download_bundle"),
    "fitting": ("by_module", "check_layers", "load_layers"),
    "fused_file": (
        "FusedNetwork",
        "FusedSystem",
        "check_network",
        "describe_networks",
        "is_fused_file",
        "locate_network",
        "read_fused_file",
        "write_fused_file",
    ),
    "graphs": ("samples_for", "write_torchscript"),
    "hub": ("write_hub_folder", "write_safetensors_network"),
    "importing": ("Imported", "import_detector"),
    "model_card": ("measured_eers", "model_card_text"),
    "named_weights": ("bytes_to_fetch", "names_path", "pin_weights"),
    "network_file": ("NETWORK_SECTIONS", "NetworkFile", "write_network_file"),
    "network_reading": ("fill_for_scoring", "fill_network", "read_network", "read_network_file"),
    "onnx_graphs": ("onnx_graph", "write_onnx"),
    "opening": ("describe_source", "find_network", "note_source", "read_detector"),
    "pretrained": ("build_front_end", "build_pretrained", "load_pretrained"),
    "published": ("aasist_state", "load_detector_weights", "published_state", "rawnet2_state"),
    "recognition": ("Recognised", "recognise"),
    "safetensors": ("write_safetensors",),
    "weights_digest": ("digest_in_memory", "network_digest", "note_file"),
    "weights_file": ("write_weights_file",),
}

# Written out, not computed from _HOMES: type checkers read only a literal list.
__all__ = [
    "NETWORK_SECTIONS",
    "FusedNetwork",
    "FusedSystem",
    "Imported",
    "NetworkFile",
    "Recognised",
    "aasist_state",
    "antideepfake_state",
    "build_for",
    "build_front_end",
    "build_pretrained",
    "bundle_architecture",
    "by_module",
    "bytes_to_fetch",
    "check_layers",
    "check_network",
    "describe_networks",
    "describe_source",
    "digest_in_memory",
    "download_bundle",
    "fill_for_scoring",
    "fill_network",
    "find_base",
    "find_network",
    "has_one_class",
    "import_detector",
    "is_fused_file",
    "load_detector_weights",
    "load_layers",
    "load_pretrained",
    "locate_network",
    "measured_eers",
    "model_card_text",
    "names_path",
    "network_digest",
    "note_file",
    "note_source",
    "onnx_graph",
    "pin_weights",
    "published_state",
    "rawnet2_state",
    "read_detector",
    "read_fused_file",
    "read_network",
    "read_network_file",
    "recognise",
    "samples_for",
    "write_fused_file",
    "write_hub_folder",
    "write_network_file",
    "write_onnx",
    "write_safetensors",
    "write_safetensors_network",
    "write_torchscript",
    "write_weights_file",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            # Python calls this function only for names that the module lacks: the next use costs
            # nothing.
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
