"""Conversion of weights from and to other systems, and lookup of networks by name.

The names below are the public interface of this room; they are imported on first use, because torch
takes seconds to import. `asdf.checkpoint` handles ASDF's own files.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door
from asdf.ports import provided

if TYPE_CHECKING:
    from asdf.interchange.finding import describe_source, find_network
    from asdf.interchange.front_end_weights import (
        bundle_architecture,
        bytes_to_fetch,
        download_bundle,
        names_path,
        pin_weights,
    )
    from asdf.interchange.graphs import samples_for, write_onnx, write_torchscript
    from asdf.interchange.model_card import (
        measured_eers,
        model_card_text,
        write_transformers_folder,
    )
    from asdf.interchange.named_networks import (
        build_on_network,
        digest_in_memory,
        network_digest,
        note_file,
        note_source,
        read_detector,
        read_network,
    )
    from asdf.interchange.pretrained import build_front_end, build_pretrained, load_pretrained

__all__, __getattr__ = open_door(
    __name__,
    NetworkFile="asdf.checkpoint.network_file",
    write_network_file="asdf.checkpoint.network_file",
    fill_network="asdf.checkpoint.network_reading",
    read_network_file="asdf.checkpoint.network_reading",
    **provided("LAYOUTS"),
)
