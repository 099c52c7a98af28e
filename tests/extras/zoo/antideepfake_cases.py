"""AntiDeepfake's detectors in small, written from its formulas with transformers and plain torch.

Nothing of ASDF is imported: the names of layers, the sizes, the waveform's norm, the head and the
scores are those of models/W2V.py, models/HBT.py, models/oc_softmax.py, dataio/dataio.py and
evaluation.py of nii-yamagishilab/AntiDeepfake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import HubertConfig, HubertModel, Wav2Vec2Config, Wav2Vec2Model

DIMENSION = 48
CHANNELS = 32
PREFIX = "m_ssl.model."
# Of the pretraining in fairseq's networks; scores do not depend on them.
WAV2VEC2_PRETRAINING = {
    "mask_emb": (DIMENSION,),
    "quantizer.vars": (1, 8, 4),
    "quantizer.weight_proj.weight": (8, CHANNELS),
    "quantizer.weight_proj.bias": (8,),
    "project_q.weight": (8, 8),
    "project_q.bias": (8,),
    "final_proj.weight": (8, DIMENSION),
    "final_proj.bias": (8,),
}
HUBERT_PRETRAINING = {
    "mask_emb": (DIMENSION,),
    "label_embs_concat": (5, 8),
    "final_proj.weight": (8, DIMENSION),
    "final_proj.bias": (8,),
}
_SIZES: dict[str, Any] = {
    "hidden_size": DIMENSION,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "conv_dim": [CHANNELS] * 7,
    "num_conv_pos_embeddings": 32,
    "num_conv_pos_embedding_groups": 4,
    "attn_implementation": "eager",
}
_LITERAL: dict[str, Any] = {
    "conv_layers": ((CHANNELS, 10, 5), *[(CHANNELS, 3, 2)] * 4, *[(CHANNELS, 2, 2)] * 2),
    "dimension": DIMENSION,
    "layers": 2,
    "heads": 4,
    "feed_forward": 96,
    "pos_conv_kernel": 32,
    "pos_conv_groups": 4,
    "relative_positions": None,
}
# fairseq's names, the left ones transformers'; the first that fits counts.
_NAMES = [
    (r"feature_extractor\.conv_layers\.(\d+)\.conv\.", r"feature_extractor.conv_layers.\1.0."),
    (r"feature_projection\.layer_norm\.", "layer_norm."),
    (r"feature_projection\.projection\.", "post_extract_proj."),
    (r"encoder\.pos_conv_embed\.conv\.parametrizations\.weight\.original0", "pos_g"),
    (r"encoder\.pos_conv_embed\.conv\.parametrizations\.weight\.original1", "pos_v"),
    (r"encoder\.pos_conv_embed\.conv\.bias", "encoder.pos_conv.0.bias"),
    (r"encoder\.layers\.(\d+)\.attention\.", r"encoder.layers.\1.self_attn."),
    (r"encoder\.layers\.(\d+)\.layer_norm\.", r"encoder.layers.\1.self_attn_layer_norm."),
    (r"encoder\.layers\.(\d+)\.feed_forward\.intermediate_dense\.", r"encoder.layers.\1.fc1."),
    (r"encoder\.layers\.(\d+)\.feed_forward\.output_dense\.", r"encoder.layers.\1.fc2."),
]


@dataclass
class Case:
    """A detector with random numbers.

    Attributes:
        architecture: the value of `front_end.architecture` that names its sizes.
        weight: of `proj_fc`: (2, dimension), or (dimension, 1) of the one-class variant.
        bias: (2,); None of the one-class variant.
        pretraining: layers that scores do not depend on, by fairseq's names.
    """

    ssl: nn.Module
    wrapped_norms: bool
    architecture: str
    weight: Tensor
    bias: Tensor | None
    pretraining: dict[str, Tensor]

    def state(self) -> dict[str, Tensor]:
        """Return the state dict as AntiDeepfake saves it."""
        state = {}
        for name, tensor in self.ssl.state_dict().items():
            if name != "masked_spec_embed":
                state[PREFIX + self._fairseq_name(name)] = tensor.clone()
        for name, tensor in self.pretraining.items():
            state[PREFIX + name] = tensor.clone()
        state["proj_fc.weight"] = self.weight.clone()
        if self.bias is not None:
            state["proj_fc.bias"] = self.bias.clone()
        return state

    def _fairseq_name(self, name: str) -> str:
        norm = r"feature_extractor.conv_layers.\1.2." + ("1." if self.wrapped_norms else "")
        pairs = [*_NAMES, (r"feature_extractor\.conv_layers\.(\d+)\.layer_norm\.", norm)]
        for theirs, fairseqs in pairs:
            renamed, count = re.subn(f"^{theirs}", fairseqs, name)
            if count:
                marks = {"pos_g": "weight_g", "pos_v": "weight_v"}
                end = marks.get(renamed)
                return f"encoder.pos_conv.0.{end}" if end else renamed
        return name

    @torch.no_grad()
    def logits(self, waveform_T: Tensor) -> Tensor:
        """Return what their program gives for one whole recording: (2,) of (fake, real)."""
        centred_T = waveform_T - waveform_T.mean()
        scaled_T = centred_T / (centred_T.square().mean() + 1e-5).sqrt()
        frames_LC = self.ssl(scaled_T.unsqueeze(0)).last_hidden_state[0]
        pooled_C = frames_LC.sum(dim=0) / len(frames_LC)
        if self.bias is not None:
            return self.weight @ pooled_C + self.bias
        # Its length is brought to 1e-5 and then multiplied by 1e5.
        vector_C = (self.weight.renorm(2, 1, 1e-5) * 1e5)[:, 0]
        cosine = (pooled_C @ vector_C / pooled_C.square().sum().sqrt()).clamp(-1, 1)
        return torch.stack([-cosine, cosine])


def make_case(kind: str, one_class: bool = False) -> Case:
    """Return a detector with random numbers.

    Args:
        kind: 'group norm' as w2v_small, 'layer norm' as w2v_large, mms and xlsr, or 'hubert'.
    """
    torch.manual_seed(7)
    layer_norm = kind != "group norm"
    sizes = {
        **_SIZES,
        "feat_extract_norm": "layer" if layer_norm else "group",
        "conv_bias": kind == "layer norm",
        "do_stable_layer_norm": layer_norm,
    }
    ssl: nn.Module
    shapes = WAV2VEC2_PRETRAINING
    if kind == "hubert":
        shapes = HUBERT_PRETRAINING
        ssl = HubertModel(HubertConfig(**sizes))
    else:
        ssl = Wav2Vec2Model(Wav2Vec2Config(**sizes))
    with torch.no_grad():
        for parameter in ssl.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    literal = {
        **_LITERAL,
        "extractor_mode": "layer_norm" if layer_norm else "group_norm",
        "conv_bias": kind == "layer norm",
        "layer_norm_first": layer_norm,
    }
    weight = 0.2 * torch.randn(2, DIMENSION)
    bias: Tensor | None = torch.randn(2)
    if one_class:
        weight = 0.2 * torch.randn(DIMENSION, 1)
        bias = None
    pretraining = {name: torch.randn(shape) for name, shape in shapes.items()}
    return Case(ssl.eval(), layer_norm, repr(literal), weight, bias, pretraining)
