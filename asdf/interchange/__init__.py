"""Network files, and weights of other systems, in and out.

The names below are the door of this room; they are imported when they are first used, since torch
takes seconds to import.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

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

__all__, __getattr__ = open_door(__name__)
