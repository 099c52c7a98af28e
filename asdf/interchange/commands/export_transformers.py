"""The folder of `export --format transformers`: its scoring rule, and the text of its card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

if TYPE_CHECKING:
    from torch import nn

    from asdf.checkpoint.network_file import NetworkFile
    from asdf.interchange import ScoringRule, WrittenFolder

# The fields of a calibration that map scores.
_MAP = ("scale", "offset", "lowest_llr", "highest_llr", "map_scores", "map_llrs")

_USE = """
## Use with transformers

```python
from transformers import pipeline

detector = pipeline("audio-classification", model="{address}", trust_remote_code=True)
detector("recording.wav")
```

`trust_remote_code=True` runs the code of this folder, which is short: `network_asdf.py` has the
network ({lines} lines), `modeling_asdf.py` the rest. It needs transformers and
{packages}; ASDF is not needed.

A recording is converted to 16 kHz and {length}{windows}
The pipeline shows the softmax of both logits, which is not calibrated. For the scores of ASDF take
the model's own output:

```python
from transformers import AutoFeatureExtractor, AutoModelForAudioClassification

model = AutoModelForAudioClassification.from_pretrained("{address}", trust_remote_code=True)
extract = AutoFeatureExtractor.from_pretrained("{address}")
outputs = model(**extract(waveform, sampling_rate=16000, return_tensors="pt"))
outputs.scores  # {score}
outputs.llrs  # {llrs}
```

{threshold}
All of it learns in training mode: `Trainer` and a loop of your own train it further, by the
cross-entropy of the logits (labels 0 spoof, 1 bonafide). ASDF reads the folder back after
`save_pretrained`.
"""


def scoring_rule(network: nn.Module, file: NetworkFile) -> ScoringRule:
    """Return the rule that computes a recording's score with a network.

    Raises:
        UsageError: lengths do not fully describe how it hears recordings.
    """
    from asdf.interchange import ScoringRule
    from asdf.metrics.calibration import read_calibration
    from asdf.scoring.scorer import scored_length_of

    settings = file.to_sections()
    if settings.sad.mode != "off":
        raise UsageError(
            f"this network scores recordings without silence (sad.mode = {settings.sad.mode!r}), "
            "but only ASDF can remove the silence. Export it as hub, or train it with sad.mode = "
            "'off'."
        )
    length = scored_length_of(network, settings.network, settings.audio)
    assert length.max_samples is not None  # settings always have a limit
    calibration = read_calibration(file.calibration, "the network")
    known = None
    if calibration is not None:
        content = calibration.content()
        known = {key: content[key] for key in _MAP if content.get(key) is not None}
    return ScoringRule(
        length.min_samples,
        length.max_samples,
        settings.network.score,
        calibration.threshold if calibration else None,
        known,
    )


def write_transformers(source: str, folder: Path, network: nn.Module, file: NetworkFile) -> str:
    """Write the folder; return a description of the comparison and the requirements.

    Args:
        source: Path of the network, next to which the results of its run may be.

    Raises:
        AsdfError: the network is not supported, or the folder cannot be written.
    """
    from asdf.interchange import measured_eers, model_card_text, write_transformers_folder
    from asdf.networks.build import summary

    rule = scoring_rule(network, file)
    # Resolved, because the folder may be given as '.', which is not a name for a card.
    name = folder.resolve().name
    eers = measured_eers(Path(source), file)

    def card(written: WrittenFolder) -> str:
        further_use = describe_use("this/folder", rule, written)
        parameters = summary(network).total
        return model_card_text(name, file, parameters, eers, further_use=further_use)

    written = write_transformers_folder(folder, network, file, rule, card)
    packages = ", ".join(("transformers", *written.packages))
    return (
        f"{written.words}\nnetwork_asdf.py has {written.lines} lines; loading the folder needs "
        f"{packages}, but not ASDF\nREADME.md is the model card: add the licence of the weights"
    )


def describe_use(address: str, rule: ScoringRule, written: WrittenFolder) -> str:
    """Return the paragraphs of the model card on the folder's use with transformers."""
    seconds = f"{rule.max_samples / SAMPLE_RATE:g} s"
    length = f"scored from its first {rule.max_samples:,} samples ({seconds}); "
    length += f"a shorter one is repeated from its start up to {rule.min_samples:,} samples."
    if rule.min_samples < rule.max_samples:
        length = f"scored whole, up to its first {rule.max_samples:,} samples ({seconds})."
    score = "the logit of bonafide"
    if rule.score != "bona_fide":
        score = "the logit of bonafide less that of spoof"
    threshold = "No threshold is known: learn one with `python -m asdf calibrate`."
    if rule.threshold is not None:
        threshold = f"Bona fide from an LLR of {rule.threshold:g} on (`model.config.threshold`)."
    llrs = "natural-log likelihood ratios" if rule.calibration else "None: it is not calibrated"
    return _USE.format(
        address=address,
        packages=", ".join(written.packages),
        lines=written.lines,
        length=length,
        windows=f"\nASDF scores a longer one as the mean over windows of {seconds}.\n",
        score=score,
        llrs=llrs,
        threshold=threshold,
    )
