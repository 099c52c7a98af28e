"""The model card of an exported network: what it is, how to use it, what it was trained on, how well it does.

Invariant: the card says what the network's file and its run's results say, and names what they do not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.runs.layout import layout_of_network
from asdf.settings.catalogue import catalogue
from asdf.settings.sections import Sections
from asdf.trials.how_scored import in_precision, set_and_precision

Eers = dict[str, float]

_HEAD = """---
library_name: asdf
pipeline_tag: audio-classification
tags:
- anti-spoofing
- audio-deepfake-detection
- speech
---

# {name}

A network that tells bona fide speech from spoofed speech: `{network_class}`, {parameters:,} parameters, made with
ASDF, the Artificial Speech Detection Framework. It takes speech at 16 kHz; the higher the score, the more bona fide.

## Use

```python
import asdf

detector = asdf.Detector("this/folder")
detector.score("recording.wav")
```

or `python -m asdf score this/folder recording.wav`.
"""
# Where a network was made is no matter of those who use it.
_LEFT_OUT = ("paths.", "computing.", "recipe.")


def model_card(
    name: str, content: Mapping[str, Any], settings: Sections, parameters: int, eers: Eers
) -> str:
    """The card in Markdown.

    Args:
        eers: equal error rates, fractions, by the name of the set that they were measured on.
    """
    parts = [
        _HEAD.format(name=name, network_class=settings.network.network_class, parameters=parameters)
    ]
    sets = ", ".join(settings.recipe.training_sets)
    known = "progress" in content or eers
    parts.append(
        f"## Training data\n\n{sets if known else 'Not stated in the file that this was made from.'}\n"
    )
    parts.append(
        "## Evaluation\n\n"
        + (_table(eers) if eers else "No measured error rates came with the file.\n")
    )
    calibration = content.get("calibration")
    if isinstance(calibration, Mapping):
        values = ", ".join(
            f"{key} {value}" for key, value in calibration.items() if value is not None
        )
        parts.append(f"## Calibration\n\nScores are natural-log likelihood ratios: {values}.\n")
    parts.append(f"## Settings\n\nAll others have their defaults.\n\n{_settings(settings)}")
    parts.append("## Licence\n\nNot stated. It is for those who publish the network to add.\n")
    return "\n".join(parts)


def measured_eers(path: Path, content: Mapping[str, Any]) -> Eers:
    """EERs that came with a network: of the validation in its own file, and of the results of its run.

    The results are those in `results/results.json` beside the folder of networks, for the network's file name.
    """
    eers: Eers = {}
    progress = content.get("progress", {})
    for evaluation in progress.get("evaluations", []) if isinstance(progress, Mapping) else []:
        if evaluation.get("step") == progress.get("step"):
            suffix = in_precision(evaluation.get("scoring_precision"))
            eers |= {
                f"{name}{suffix}": float(eer) for name, eer in evaluation.get("eer", {}).items()
            }
    results = layout_of_network(path.resolve()).results_json
    if path.is_file() and results.is_file():
        try:
            rows = json.loads(results.read_text(encoding="utf-8"))
            eers |= {
                set_and_precision(row): float(row["eer"])
                for row in rows
                if row["epoch"] == path.stem
            }
        except (ValueError, KeyError, TypeError, OSError):
            return eers
    return eers


def _table(eers: Eers) -> str:
    rows = [f"| {name} | {100 * eer:.3f} |" for name, eer in eers.items()]
    return "\n".join(["| set | EER % |", "|---|---|", *rows]) + "\n"


def _settings(settings: Sections) -> str:
    rows = ["| setting | value |", "|---|---|"]
    for name, known in catalogue().items():
        value = getattr(getattr(settings, known.section), known.name)
        if value != known.default and not name.startswith(_LEFT_OUT):
            rows.append(f"| `{name}` | `{value!r}` |")
    return "\n".join(rows) + "\n"
