"""The layer names of Hugging Face's wav2vec 2.0, HuBERT and WavLM, as torchaudio's.

Invariant: a layer is either renamed, known to be of no use for features, or left under its own
name, where the check of layers reports it.

Source: the state dicts of transformers and torchaudio.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from asdf.networks.front_ends.wavlm import join_attention_layers

# Of pretraining, and what fine-tuned networks have after the encoder.
_NOT_USED = re.compile(
    r"masked_spec_embed$|(quantizer|project_q|project_hid|lm_head|classifier|projector"
    r"|layer_weights|tdnn|feature_extractor_classifier|objective|adapter)\b"
)


def is_hugging_face(state: Mapping[str, Tensor]) -> bool:
    """Whether layers have Hugging Face's names."""
    # fairseq calls it post_extract_proj, and in torchaudio it lies below `encoder.`.
    return "feature_projection.projection.weight" in state


def torchaudio_names(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Return layers under torchaudio's names, and the names of those left out."""
    layers = {}
    left_out = []
    for name, tensor in state.items():
        if _NOT_USED.match(name):
            left_out.append(name)
        elif name.startswith("feature_projection."):
            layers[f"encoder.{name}"] = tensor
        elif name.startswith("encoder."):
            layers[f"encoder.transformer.{name.removeprefix('encoder.')}"] = tensor
        else:
            layers[name] = tensor
    return join_attention_layers(layers), left_out
