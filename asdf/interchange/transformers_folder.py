"""A network as a folder that transformers loads where ASDF is installed."""

from __future__ import annotations

import json
from pathlib import Path

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.safetensors_network import MODEL_TYPE, TRANSFORMERS_PREFIX, write_folder
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.runs.files import write_text

_CODE = '''"""A detector of ASDF, the Artificial Speech Detection Framework, for transformers."""

try:
    from asdf.scoring.transformers_model import AsdfDetector, AsdfDetectorConfig
except ImportError as error:
    raise ImportError("this model needs ASDF: pip install asdf-antispoofing") from error
'''


def write_transformers_folder(folder: Path, file: NetworkFile, card: str) -> None:
    """Write a network for `AutoModelForAudioClassification` and pipelines.

    Raises:
        AsdfError: `folder` is a file, or cannot be written.
    """
    rate = file.to_sections().audio.sample_rate
    config = {
        "architectures": ["AsdfDetector"],
        "auto_map": {
            "AutoConfig": "modeling_asdf.AsdfDetectorConfig",
            "AutoModelForAudioClassification": "modeling_asdf.AsdfDetector",
        },
        "model_type": MODEL_TYPE,
        "id2label": {"0": "spoof", "1": "bonafide"},
        "label2id": {"spoof": 0, "bonafide": 1},
        "sampling_rate": rate,
        "dtype": "float32",
        "asdf": file.description(),
    }
    preprocessing = {
        "feature_extractor_type": "Wav2Vec2FeatureExtractor",
        "feature_size": 1,
        "sampling_rate": rate,
        "padding_value": 0.0,
        # The network prepares waveforms itself.
        "do_normalize": False,
        # Marks the length of each recording in a batch, so that padding is not heard.
        "return_attention_mask": True,
    }
    state = {f"{TRANSFORMERS_PREFIX}{name}": tensor for name, tensor in file.state.items()}
    write_folder(folder, state, config, card)
    write_text(folder / "modeling_asdf.py", _CODE)
    write_text(folder / PREPROCESSOR, json.dumps(preprocessing, indent=2) + "\n")
