"""Folders for other people: the model card of an exported network, and the files for transformers.

Invariant: the card states what the network's file and its run's results contain, and says what is
missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import MODEL_TYPE, TRANSFORMERS_PREFIX, write_folder
from asdf.errors import AsdfError
from asdf.interchange.hugging_face import PREPROCESSOR
from asdf.metrics.calibration import read_calibration
from asdf.runs.files import write_text
from asdf.runs.layout import layout_of_network
from asdf.settings.catalogue import our_catalogue
from asdf.settings.sections import Sections
from asdf.text import shorten
from asdf.trials.how_scored import described_set, in_precision

Eers = dict[str, float]

_HEAD = """---
{licence}library_name: {library}
pipeline_tag: audio-classification
tags:
- anti-spoofing
- audio-deepfake-detection
- speech
---

# {name}

A network that tells bona fide speech from spoofed speech: `{network_class}`, {parameters:,} \
parameters, made with
ASDF, the Artificial Speech Detection Framework. It takes speech at {rate}; the \
higher the score, the more bona fide.

## Use

```python
import asdf

detector = asdf.Detector("{address}")
detector.score("recording.wav")
```

or `python -m asdf score {address} recording.wav`.
{further_use}"""
# Where a network was trained does not matter to its users.
_LEFT_OUT = ("paths.", "computing.", "recipe.")

_CALIBRATION = "## Calibration\n\nScores are natural-log likelihood ratios: {}.\n"


def model_card_text(
    name: str,
    file: NetworkFile,
    parameters: int,
    eers: Eers,
    address: str = "this/folder",
    licence: str = "",
    further_use: str = "",
) -> str:
    """Return the card as Markdown.

    Args:
        address: Name of the network in users' commands.
        further_use: Paragraphs on its use with transformers; '': the folder is for ASDF alone.
        licence: Name of the licence on the hub, such as 'cc-by-4.0'; '': not stated.
        eers: Equal error rates, as fractions, by the name of the set.
    """
    settings = file.to_sections()
    head = _HEAD.format(
        name=name,
        parameters=parameters,
        address=address,
        licence=f"license: {licence}\n" if licence else "",
        rate=f"{settings.audio.sample_rate / 1000:g} kHz",
        network_class=settings.network.network_class,
        further_use=further_use,
        library="transformers" if further_use else "asdf",
    )
    parts = [head]
    training_data = "Not stated in the file that this was made from."
    # Without either the file was imported, and its training sets are unset defaults.
    if file.progress is not None or eers:
        training_data = ", ".join(settings.recipe.training_sets)
        if settings.recipe.leave_out:
            column, *values = settings.recipe.leave_out
            training_data += f", without utterances of {column} {', '.join(values)}"
    parts.append(f"## Training data\n\n{training_data}\n")
    if isinstance(file.merged, Mapping):
        parts.append(_describe_merged(file.merged))
    evaluation = "No measured error rates came with the file.\n"
    if eers:
        evaluation = "| set | EER % |\n|---|---|\n"
        for evaluation_set, eer in eers.items():
            evaluation += f"| {evaluation_set} | {100 * eer:.3f} |\n"
    parts.append(f"## Evaluation\n\n{evaluation}")
    if isinstance(file.calibration, Mapping):
        parts.append(_describe_calibration(file.calibration))
    parts.append(f"## Settings\n\nAll others have their defaults.\n\n{_settings_table(settings)}")
    stated = licence or "Not stated. It is for those who publish the network to add."
    parts.append(f"## Licence\n\n{stated}\n")
    return "\n".join(parts)


def _describe_calibration(entry: Mapping[str, Any]) -> str:
    """Return the parameters of a calibration, without knots and replicates, and its origin."""
    left_out = (list, tuple, Mapping, type(None))
    values = [f"{key} {each}" for key, each in entry.items() if not isinstance(each, left_out)]
    text = _CALIBRATION.format(", ".join(values))
    try:
        calibration = read_calibration(entry, "the network")
    except AsdfError:
        return text
    origin = calibration.describe_origin() if calibration else ""
    return f"{text}\nIt was {origin}.\n" if origin else text


def _describe_merged(lora: Mapping[str, Any]) -> str:
    """Return how a front end with merged LoRA updates was trained.

    Args:
        lora: Section `lora` of the file.
    """
    details = []
    for name in ("rank", "alpha", "targets"):
        value = lora.get(name, "not stated")
        if isinstance(value, list | tuple):
            value = ", ".join(map(str, value))
        details.append(f"{name} {shorten(str(value))}")
    return (
        f"## Updates of the front end\n\nThe front end was trained by LoRA "
        f"({'; '.join(details)}). The updates are merged into its weights.\n"
    )


def measured_eers(path: Path, file: NetworkFile) -> Eers:
    """Return the EERs of a network: of its validation, and of the results of its run.

    The results are those in `results/results.json` next to the folder of networks, for the
    network's file name. Unreadable results are left out.
    """
    eers = _validation_eers(file.progress)
    results = layout_of_network(path.resolve()).results_json
    if not (path.is_file() and results.is_file()):
        return eers
    try:
        for row in json.loads(results.read_text(encoding="utf-8")):
            if row["epoch"] == path.stem:
                # The same set, validated in training, under its plain name.
                eers.pop(f"{row['set']}{in_precision(row.get('scoring_precision'))}", None)
                eers[described_set(row)] = float(row["eer"])
    except (ValueError, KeyError, TypeError, OSError):
        # Discard the rows read so far: partial results could be mistaken for all of them.
        return _validation_eers(file.progress)
    return eers


def _validation_eers(progress: Any) -> Eers:
    """Return the EERs of the evaluation at the network's step."""
    eers: Eers = {}
    if not isinstance(progress, Mapping):
        return eers
    for evaluation in progress.get("evaluations", []):
        if evaluation.get("step") == progress.get("step"):
            suffix = in_precision(evaluation.get("scoring_precision"))
            for name, eer in evaluation.get("eer", {}).items():
                eers[f"{name}{suffix}"] = float(eer)
    return eers


def _settings_table(settings: Sections) -> str:
    rows = ["| setting | value |", "|---|---|"]
    declared = {name: type(section) for name, section in settings.declared.items()}
    for name, setting in our_catalogue().with_sections(declared).settings.items():
        value = getattr(getattr(settings, setting.section), setting.name)
        if value != setting.default and not name.startswith(_LEFT_OUT):
            rows.append(f"| `{name}` | `{value!r}` |")
    return "\n".join(rows) + "\n"


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
