"""The configurations of transformers: an encoder's, as text, and its feature extractor's.

Invariant: a configuration is data. Only plain values of plausible sizes are taken from a text or
file; entries that would select other code, a number format, or dropout and masking in training are
left out. Only classes of transformers are created. An utterance's features do not depend on its
batch. Two extractors are written in torch (`spectral.py`); all others run in numpy, on the
CPU. Importing this module does not import transformers.

Source: the configurations and state dicts of transformers.

Shapes: B utterances, T samples.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.front_ends.encoder_outline import outside_modes
from asdf.networks.front_ends.spectral import StackedFilterBank, Waveforms, WhisperLogMel
from asdf.runs.log import LOG
from asdf.settings.class_path import describe_error
from asdf.text import shorten

# The key of the feature extractor's settings, if these matter.
EXTRACTOR = "feature_extractor"
# Limit for numbers that the weights do not confirm; published encoders stay below it.
MAX_NUMBER = 10**5
MAX_BANDS = 1024
MAX_LAYERS = 1000
# Limits for an extractor, by the first word found in a name; their product bounds its matrices.
_EXTRACTOR_LIMITS = {
    "mel": 2 * MAX_BANDS,
    "feature_size": 2 * MAX_BANDS,
    "chunk_length": 600,
    "fft": 2**15,
    "frame_length": 2**15,
    "": 10**6,
}
# Entries about the machine, other code, number formats, heads, and ways of computing.
_LEFT_OUT = (
    "architectures",
    "attn_implementation",
    "auto_map",
    "dtype",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "quantization_config",
    "torch_dtype",
    "transformers_version",
)
# Entries about training, which the settings of the front end control.
_OFF = {
    "add_adapter": False,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
}


def config_text(config: Mapping[str, Any]) -> str:
    """Return the value of `front_end.architecture` that describes the encoder of `config`."""
    # Sorted, since features are cached under this text, and files have any order of entries.
    return json.dumps(_without_left_out(config), sort_keys=True)


def read_config(text: str) -> dict[str, Any]:
    """Return the encoder configuration in a value of `front_end.architecture`.

    Raises:
        UsageError: it is not a configuration, or has sizes that no encoder has.
    """
    try:
        config = json.loads(text)
        if not isinstance(config, dict):
            raise ValueError("it is not a dictionary")
        if not isinstance(config.get("model_type"), str):
            raise ValueError("it has no model_type")
        chosen = _without_left_out(config)
    # Deeply nested text exceeds Python's recursion limit.
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"front_end.architecture: {shorten(text)!r} is not a configuration of transformers "
            f"({error}). Set front_end.weights to the folder of a model, or front_end.architecture "
            'to the text of a config.json, such as \'{"model_type": "hubert"}\'.'
        ) from error
    extractor = chosen.pop(EXTRACTOR, None)
    _check_numbers(chosen)
    result = {**_without_training(chosen), **_OFF}
    if isinstance(extractor, dict):
        result[EXTRACTOR] = extractor
        for name, number in _numbers(extractor):
            limit = next(limit for word, limit in _EXTRACTOR_LIMITS.items() if word in name)
            if abs(number) > limit:
                _refuse(f"{EXTRACTOR}.{name}", number, limit)
    return result


def check_layer_counts(config: Mapping[str, Any]) -> None:
    """Refuse a configuration with more layers or blocks, at any depth, than any network has.

    Raises:
        UsageError: it has more than `MAX_LAYERS`; outlining them would take minutes.
    """
    for name, value in _numbers(config):
        counts_modules = any(word in name for word in ("layers", "blocks", "experts", "depth"))
        if counts_modules and value > MAX_LAYERS:
            _refuse(name, value, MAX_LAYERS)


def _without_left_out(config: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {}
    for name, value in config.items():
        # Such as _name_or_path, which may be a path on the machine of training.
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        chosen[name] = _without_left_out(value) if isinstance(value, dict) else value
    return chosen


def _without_training(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `config` with dropout and masking turned off, also in nested configurations."""
    chosen = {}
    for name, value in config.items():
        within = _without_training(value) if isinstance(value, dict) else value
        chosen[name] = _OFF.get(name, within)
    return chosen


def _numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    """Yield the names and numbers of a configuration, including lists and nested ones."""
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
            continue
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield name, number


def _check_numbers(config: Mapping[str, Any]) -> None:
    for name, number in _numbers(config):
        # Vocabularies belong to heads, which are not built.
        if "vocab" in name or name.endswith(("token_id", "token_index")):
            continue
        is_band = "mel_bins" in name or name == "feature_projection_input_dim"
        limit = 2 * MAX_BANDS if is_band else MAX_NUMBER
        is_wide = name in ("rope_theta", "max_position_embeddings", "sampling_rate", "max_length")
        if abs(number) > limit and not is_wide:
            _refuse(name, number, limit)


def _refuse(name: str, value: int | float, limit: int) -> None:
    raise UsageError(
        f"front_end.architecture: {name} = {shorten(str(value))} exceeds the limit of {limit:,}."
    )


TYPE = "feature_extractor_type"
# transformers' table gives wav2vec 2.0's extractor for this type, which has its own.
_EXCEPTIONS = {"wav2vec2-bert": "SeamlessM4TFeatureExtractor"}
_IN_TORCH = ("SeamlessM4TFeatureExtractor", "WhisperFeatureExtractor")


class Extracted(nn.Module):
    """The features of an extractor of transformers, computed per utterance.

    Attributes:
        wanted_mask: Name of the mask that the encoder requires; '' if it requires none.
    """

    def __init__(self, extractor: Any, wanted_mask: str) -> None:
        super().__init__()
        _leave_out_of_graphs()
        self.extractor = extractor
        self.wanted_mask = wanted_mask

    def __deepcopy__(self, memo: Any) -> Extracted:
        # An extractor holds no parameters of a network and is never changed.
        return Extracted(self.extractor, self.wanted_mask)

    def forward(self, waveforms_BT: Tensor) -> dict[str, Tensor]:
        """Return the extractor's outputs by name, stacked over the batch.

        Raises:
            UsageError: the network is being exported as a graph, which numpy cannot be part of.
        """
        is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined]
        if is_traced or torch.onnx.is_in_onnx_export():
            raise UsageError(
                f"a front end with {type(self.extractor).__name__} cannot be exported: "
                "transformers computes its features with numpy. Serve the network file instead."
            )
        if waveforms_BT.is_meta:
            # Only shapes are needed, which depend only on the number of samples.
            example_T = example_waveform(waveforms_BT.shape[1])
            return self._stack([example_T] * len(waveforms_BT), "meta")
        rows = list(waveforms_BT.detach().float().cpu())
        return self._stack(rows, waveforms_BT.device)

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that features depend on: possibly all."""
        return samples

    def _stack(self, rows: list[Tensor], device: torch.device | str) -> dict[str, Tensor]:
        results = [extract(self.extractor, row_T) for row_T in rows]
        stacked = {}
        for name in results[0]:
            with outside_modes():
                tensor = torch.cat([result[name] for result in results])
                # For too few samples some give NaN; `count_frames` takes the error as no frame.
                if device == "meta" and not tensor.isfinite().all():
                    raise ValueError("the waveform is too short: features are not numbers")
            # Masks that leave nothing out cost time and are not known for outlines.
            is_mask = name.endswith("mask")
            if is_mask and self.wanted_mask:
                stacked[self.wanted_mask] = tensor.to(device)
            elif not (is_mask and bool(tensor.bool().all())):
                stacked[name] = tensor.to(device)
        return stacked


@cache
def _leave_out_of_graphs() -> None:
    """Exclude extractors from torch.compile.

    A decorator would load torch's compiler, which takes a second, and most networks have no
    extractor.
    """
    setattr(Extracted, "_stack", torch.compiler.disable(Extracted._stack))  # noqa: B010


def extract(extractor: Any, waveform_T: Tensor) -> dict[str, Tensor]:
    """Return an extractor's tensors for one waveform."""
    # While networks are outlined, tensors would be created without values.
    options: dict[str, Any] = {"return_tensors": "pt", "sampling_rate": SAMPLE_RATE}
    if "sampling_rate" not in inspect.signature(extractor.__call__).parameters:
        del options["sampling_rate"]
    with torch.device("cpu"), torch.no_grad(), outside_modes():
        output = extractor(waveform_T.numpy(), **options)
    main = extractor.model_input_names[0]
    # Put the encoder's main input first.
    names = sorted(output, key=lambda name: name != main)
    tensors = {}
    for name in names:
        value = output[name]
        if isinstance(value, Tensor):
            tensors[name] = value.float() if value.is_floating_point() else value
    return tensors


def example_waveform(samples: int) -> Tensor:
    """Return noise, (samples,), for which extractors compute features of the usual sizes."""
    with torch.device("cpu"), outside_modes():
        numbers = torch.Generator().manual_seed(0)
        return 0.1 * torch.randn(samples, generator=numbers)


def make_inputs(values: Mapping[str, Any], model: Any) -> nn.Module:
    """Return the input module of an encoder, chosen by its extractor's class and outputs.

    Args:
        values: Configuration, with the settings of the extractor if these are known.
        model: Encoder that takes the inputs.

    Raises:
        UsageError: there is no extractor, it is for another sampling rate, or it fails.
    """
    config = model.config
    settings = dict(values.get(EXTRACTOR, {}))
    name = settings.pop(TYPE, None) or _usual_name(values["model_type"])
    if name == "SeamlessM4TFeatureExtractor":
        return StackedFilterBank(_count(config, "feature_projection_input_dim", 160) // 2)
    if name == "WhisperFeatureExtractor":
        return WhisperLogMel(_count(config, "num_mel_bins", settings.get("feature_size", 80)))
    extractor = make_extractor(name, settings)
    waveform_T = example_waveform(SAMPLE_RATE)
    results = [_call(lambda: extract(extractor, waveform_T), name) for _ in range(2)]
    pairs = zip(results[0].values(), results[1].values(), strict=True)
    if not results[0] or not all(torch.equal(tensor, again) for tensor, again in pairs):
        raise UsageError(
            f"front_end.architecture: {name} gives different features for the same waveform each "
            "time, so scores would not be reproducible. Choose another encoder."
        )
    first = next(iter(results[0].values()))
    if first.numel() != SAMPLE_RATE:
        LOG.info(
            "front end: %s computes features with numpy on the CPU, which is slow unless they are "
            "cached (front_end.cache_features)",
            name,
        )
        parameters = inspect.signature(model.forward).parameters.values()
        wanted = [each.name for each in parameters if each.default is each.empty]
        masks = [each for each in wanted if each.endswith("mask")]
        return Extracted(extractor, masks[0] if masks else "")
    names = ("conv_dim", "conv_kernel", "conv_stride")
    stem = tuple(zip(*(getattr(config, each, ()) for each in names), strict=True))
    # Configurations without this choice have a norm in each layer.
    has_group_norm = getattr(config, "feat_extract_norm", "layer") == "group"
    return Waveforms(first.dim(), stem, has_group_norm)


def recorded_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a folder's preprocessor_config.json that recreate its extractor.

    The result is empty if features depend only on the encoder's configuration: for waveforms, and
    for the extractors that are written in torch.

    Raises:
        UsageError: the file names no extractor of transformers.
    """
    name = values.get(TYPE)
    if not isinstance(name, str) or name in (*_IN_TORCH, "Wav2Vec2FeatureExtractor"):
        return {}
    known = _parameter_names(_find_class(name))
    chosen = {key: value for key, value in values.items() if key in known}
    return {TYPE: name, **chosen}


def make_extractor(name: str, settings: Mapping[str, Any]) -> Any:
    """Return an extractor of transformers.

    Raises:
        UsageError: there is no such extractor, it lacks a package, or is for another sampling rate.
    """
    extractor_class = _find_class(name)
    known = _parameter_names(extractor_class)
    chosen = {key: value for key, value in settings.items() if key in known}
    extractor = _call(lambda: extractor_class(**chosen), name)
    rate = getattr(extractor, "sampling_rate", SAMPLE_RATE)
    if rate != SAMPLE_RATE:
        raise UsageError(
            f"front_end.architecture: the encoder's {name} is for audio of {rate:,} Hz, but "
            f"recordings are read at {SAMPLE_RATE:,} Hz. Choose another encoder."
        )
    return extractor


def _usual_name(model_type: str) -> str:
    """Return the name of transformers' extractor for a type of model, or for its family."""
    from transformers.models.auto import feature_extraction_auto

    # The table that transformers' AutoFeatureExtractor uses.
    table: dict[str, str] = vars(feature_extraction_auto)["FEATURE_EXTRACTOR_MAPPING_NAMES"]
    names = {**table, **_EXCEPTIONS}
    families = [family for family in names if model_type.startswith(family)]
    if not families:
        raise UsageError(
            "front_end.architecture: transformers has no feature extractor for the model type "
            f"{shorten(model_type)!r}: it is not an encoder of audio. Choose an encoder of "
            "waveforms or their features, such as wav2vec2, whisper, parakeet_encoder."
        )
    # The longest match: 'wav2vec2-bert' begins with 'wav2vec2' as well.
    return names[max(families, key=len)]


def _find_class(name: str) -> Any:
    from transformers.models.auto.feature_extraction_auto import feature_extractor_class_from_name

    extractor_class = feature_extractor_class_from_name(name)
    if extractor_class is None:
        raise UsageError(
            f"front_end.architecture: {shorten(name)!r} is not a feature extractor of "
            "transformers. Code from other sources is not run."
        )
    return extractor_class


def _parameter_names(extractor_class: Any) -> set[str]:
    names: set[str] = set()
    # Extractors pass options of their base classes on as **kwargs.
    for parent in inspect.getmro(extractor_class):
        parameters = inspect.signature(vars(parent).get("__init__", object)).parameters.values()
        names.update(each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
    return names - {"self", "args", "kwargs"}


def _call(function: Callable[[], Any], name: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise UsageError(
            f"front_end.architecture: transformers' {name} does not work with these settings: "
            f"{describe_error(error, __file__)}."
        ) from error


def _count(config: Any, name: str, usual: Any) -> int:
    count = getattr(config, name, usual)
    # A file may claim any number, and a matrix of this size is created.
    return min(int(count), 2 * MAX_BANDS)
