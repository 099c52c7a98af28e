"""The layer names of Hugging Face's wav2vec 2.0, HuBERT and WavLM, beside torchaudio's.

Invariant: a layer is either renamed, known to be of no use for features, or left under its own name, where the check
of layers finds it.

Source: the state dicts of transformers and torchaudio.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from asdf.networks.wavlm import join_attention_layers

# Of pretraining, and what fine-tuned networks put behind the encoder.
_NOT_USED = re.compile(
    r"masked_spec_embed$|(quantizer|project_q|project_hid|lm_head|classifier|projector|layer_weights|tdnn"
    r"|feature_extractor_classifier|objective|adapter)\b"
)


def is_hugging_face(state: Mapping[str, Tensor]) -> bool:
    """Whether layers go by Hugging Face's names."""
    return "feature_projection.projection.weight" in state


def torchaudio_names(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Layers under torchaudio's names, and the names of those left out."""
    kept = {_renamed(name): tensor for name, tensor in state.items() if not _NOT_USED.match(name)}
    return join_attention_layers(kept), [name for name in state if _NOT_USED.match(name)]


def _renamed(name: str) -> str:
    if name.startswith("feature_projection."):
        return f"encoder.{name}"
    if name.startswith("encoder."):
        return f"encoder.transformer.{name.removeprefix('encoder.')}"
    return name
