"""Values of front ends: the parts that are trained (words, ranges of layers, patterns), weights.

Invariant: the text alone shows which kind of value it is, so mistakes are found before a network
exists. Whether a network has such a part is checked when it is built; names on the hub are handled
by `asdf.hub`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from asdf.settings.mistakes import Complaint, nearest, shortened

PARTS = ("convolutions", "projection", "positions", "layers", "norms", "biases", "masks")
"""Words that `front_end.trained_parts` may contain."""

TARGETS = ("attention", "feed_forward")
"""Words that `lora.targets` may contain."""

# ASCII, since \d also matches the digits of other scripts.
_RANGE = re.compile(r"layers:(?P<first>\d{1,5})(?P<dash>-(?P<last>\d{1,5})?)?", re.ASCII)


@dataclass(frozen=True)
class LayerRange:
    """A range of encoder layers, counted from 1 as in `front_end.layer`, both ends included.

    If `last` is None, the range extends to the last layer.
    """

    first: int
    last: int | None

    def indices(self, layers: int) -> range:
        """Return the layers' indices, from 0, in an encoder with `layers` layers."""
        last = layers if self.last is None else self.last
        return range(self.first - 1, last)


def read_layer_range(text: str) -> LayerRange | None:
    """Parse 'layers', 'layers:3', 'layers:1-12' or 'layers:13-'; None for other texts.

    Raises:
        Complaint: no layers can match the range.
    """
    if text == "layers":
        return LayerRange(1, None)
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first = int(match["first"])
    last: int | None = first
    if match["dash"]:
        last = int(match["last"]) if match["last"] else None
    if first == 0:
        raise Complaint(f"'{text}': layers are counted from 1, as in front_end.layer")
    if last is not None and last < first:
        raise Complaint(f"'{text}': the last layer comes before the first")
    return LayerRange(first, last)


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern of parameter names rather than a word."""
    # Parameter names have dots, the words above have none.
    return any(character in text for character in "*?[.")


def check_parts(parts: tuple[str, ...]) -> None:
    """Check the values of `front_end.trained_parts`.

    Raises:
        Complaint: a value is neither a part, nor a range of layers, nor a pattern.
    """
    if not parts:
        raise Complaint("is empty; set front_end.frozen = True to train no part")
    for part in parts:
        if read_layer_range(part) is None:
            _check_word(part, PARTS, "'layers:1-12', 'layers:13-'")


def check_targets(targets: tuple[str, ...]) -> None:
    """Check the values of `lora.targets`.

    Raises:
        Complaint: a value is neither a kind of linear map nor a pattern.
    """
    if not targets:
        raise Complaint("is empty; set lora.rank = 0 for no updates")
    for target in targets:
        _check_word(target, TARGETS, "")


def _check_word(text: str, words: tuple[str, ...], others: str) -> None:
    if text in words or is_pattern(text):
        return
    also = f", {others}" if others else ""
    raise Complaint(
        f"'{shortened(text)}' is not a part; it is one of {', '.join(words)}{also}, or a pattern "
        f"of names such as '*.attention.*'{nearest(text, words)}"
    )


BUNDLE = "torchaudio:"
RANDOM = "random"
"""Random numbers even where the architecture is that of a pretrained encoder."""

_CHECKPOINTS = (".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".json")
# torchaudio has a bundle of each of these sizes.
_PUBLISHED = re.compile(r"(wav2vec2|hubert|wavlm)_\w+", re.ASCII)
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def missing_weights(path: Path) -> str:
    """Return advice for a `front_end.weights` whose `path` does not exist.

    The usual reason is a name of a model on the Hugging Face hub, such as
    facebook/wav2vec2-xls-r-300m.
    """
    reason = f"there is no file {path}: check front_end.weights."
    name = f"{path.parent.name}/{path.name}"
    # Such a path means a missing file, not the name of a model.
    if path.suffix in _CHECKPOINTS or path.parent.exists() or not _HUB_NAME.fullmatch(name):
        return reason
    return (
        f"{reason} {name} looks like the name of a model on the Hugging Face hub: if it is, set "
        f"front_end.weights='hub:{name}', which is downloaded once."
    )


def pretrained_weights(front_end_class: str | None, architecture: str) -> str | None:
    """Return weights of a published encoder; None if the architecture is not one's."""
    if front_end_class in (None, "wav2vec2", "asdf.networks.Wav2Vec2FrontEnd"):
        return f"{BUNDLE}{architecture.upper()}" if _PUBLISHED.fullmatch(architecture) else None
    # Of transformers: a repository, whose config.json alone says nothing of its weights.
    is_repository = "/" in architecture and not architecture.lstrip().startswith("{")
    return architecture if is_repository else None
