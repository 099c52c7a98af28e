"""The audio language model in a network: its audio tower, language model and trained parts.

Invariant: it computes what transformers computes, from features equal to those of Whisper's
extractor; nothing is downloaded, and only transformers' own code runs. `front_end.weights` names
the model, `lora.*` and `front_end.trained_parts` apply to its language model's layers, and
`front_end.frozen` applies to its audio tower.

Shapes: B utterances, T samples, P parts of an utterance, S tokens of it, H numbers of a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.autocast import without_autocast
from asdf.networks.front_ends.encoder_inputs import HOP, WINDOW, WhisperLogMel
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.transformers_config import config_text, read_config
from asdf.networks.front_ends.transformers_front_end import make_config
from asdf.networks.interface import repeat_short
from asdf.networks.language_models.families import FRAMES_PER_POSITION, find_family
from asdf.networks.language_models.words import byte_words
from asdf.networks.traced_sizes import is_traced
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import LanguageModel

TINY = "tiny"
# A vocabulary of bytes, with room for the words of the settings.
_TINY_VOCABULARY = 320
_TINY_AUDIO_TOKEN = _TINY_VOCABULARY - 1
_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|audio_bos|>", "<|audio_eos|>")


class PretrainedLanguageModel(FrontEnd):
    """An audio language model of transformers, with the layers of its language model.

    Attributes:
        family: Family of the model, which defines how it encodes audio.
        inputs: Module that computes the audio tower's input from waveforms.
        own_words: Text of the tokenizer for a model with random weights; '' for pretrained models,
            which bring their own.
    """

    model: Any
    window = WINDOW
    hop = FRAMES_PER_POSITION * HOP

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the configuration in `settings.architecture`; 'tiny' is a small Qwen2-Audio.

        Raises:
            UsageError: the type is not a supported audio language model, or a setting applies only
                to other front ends.
        """
        self._refuse_others(settings)
        # Of random numbers, such as those of a dry run, which files of networks replace.
        self.own_words = ""
        if settings.weights is None:
            self.own_words = tiny_words(self.sections.language_model)
        is_tiny = settings.architecture == TINY
        values = tiny_config() if is_tiny else read_config(settings.architecture)
        self.family = find_family(values["model_type"])
        self.architecture_setting = config_text(values)
        self._config = make_config(values)
        audio = self._config.audio_config
        self.part_samples = int(audio.max_source_positions) * FRAMES_PER_POSITION * HOP
        self.dimension = int(self._config.text_config.hidden_size)
        self.encoder_layers = int(self._config.text_config.num_hidden_layers)

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return transformers' model with random weights."""
        import transformers

        kind: Any = getattr(transformers, self.family.class_name)
        model: nn.Module = kind(self._config)
        # For example the positions of Whisper's tower.
        self.fixed = {name for name, each in model.named_parameters() if not each.requires_grad}
        if settings.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        self.inputs = WhisperLogMel(int(self._config.audio_config.num_mel_bins))
        return model

    @property
    def tower(self) -> Any:
        """The audio tower."""
        return self.model.model.audio_tower

    def hear(
        self, waveforms_BT: Tensor, lengths_B: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the audio tokens of recordings for the language model.

        Args:
            lengths_B: Samples of each recording before padding; None without padding.

        Returns:
            States (B, S, H), and a mask (B, S) of those that are not padding; None if there is
            none.

        Raises:
            UsageError: the network is being exported as a graph.
        """
        if is_traced():
            raise UsageError(
                "an audio language model cannot be exported as a graph, which would have a fixed "
                "length. Export it as safetensors, or serve the network file."
            )
        self.check_loaded()
        waveforms_BT = repeat_short(waveforms_BT, self.window)
        utterances, samples = waveforms_BT.shape
        if lengths_B is not None:
            lengths_B = lengths_B.to(waveforms_BT.device).clamp(min=self.window)
            inside_BT = torch.arange(samples, device=waveforms_BT.device) < lengths_B[:, None]
            waveforms_BT = waveforms_BT * inside_BT
        parts = (samples + self.part_samples - 1) // self.part_samples
        whole_BT = F.pad(waveforms_BT, (0, parts * self.part_samples - samples))
        with without_autocast(whole_BT):
            # Parts are padded with silence, as in transformers.
            bands = self.inputs(whole_BT.float().reshape(utterances * parts, -1))
        ends_B = waveforms_BT.new_full((utterances,), samples, dtype=torch.long)
        if lengths_B is not None:
            ends_B = lengths_B
        starts_P = torch.arange(parts, device=bands.device) * self.part_samples
        left_BP = (ends_B[:, None] - starts_P).clamp(0, self.part_samples)
        frames_BP = (left_BP + HOP - 1) // HOP
        # A part of silence alone has no tokens; it is computed as if it had one frame.
        states = self.family.hear(self.model, bands, frames_BP.flatten().clamp(min=1))
        states_BPSH = states.unflatten(0, (utterances, parts))
        if lengths_B is None:
            return self._without_silence(states_BPSH, samples), None
        counts = [0]
        for frames in range(1, self.part_samples // HOP + 1):
            counts.append(self.family.count(self.model, frames))
        counts_BP = torch.tensor(counts, device=bands.device)[frames_BP]
        heard_BPS = torch.arange(states_BPSH.shape[2], device=bands.device) < counts_BP[..., None]
        return states_BPSH.flatten(1, 2), heard_BPS.flatten(1)

    def _without_silence(self, states_BPSH: Tensor, samples: int) -> Tensor:
        """Return the tokens of recordings of `samples` samples, with their parts concatenated."""
        heard = []
        for number in range(states_BPSH.shape[1]):
            left = min(samples - number * self.part_samples, self.part_samples)
            count = self.family.count(self.model, (left + HOP - 1) // HOP)
            heard.append(states_BPSH[:, number, :count])
        return torch.cat(heard, dim=1)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Refuse, since a language model reads a prompt, which only its network knows.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "an audio language model cannot be a front end for other back ends: set "
            "network.network_class = 'asdf.networks.AudioLanguageModel'."
        )

    def layer_modules(self) -> Sequence[nn.Module]:
        """Return the language model's layers."""
        return list(self.model.model.language_model.layers)

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]:
        """Return the tower's convolutions, and the projector to the language model."""
        convolutions = [each for each in self.tower.modules() if isinstance(each, nn.Conv1d)]
        projection = self.model.model.multi_modal_projector
        return {"convolutions": convolutions, "projection": [projection]}

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters that are constant in transformers."""
        for name, parameter in self.model.named_parameters():
            if name in self.fixed:
                yield parameter

    def freeze(self, frozen: bool) -> None:
        """Freeze or unfreeze the audio tower; the language model is unaffected."""
        # The base class would freeze the language model as well.
        super().freeze(False)
        self.frozen = frozen
        if frozen:
            self.tower.requires_grad_(False)
            self.tower.eval()

    def train(self, mode: bool = True) -> PretrainedLanguageModel:
        """Set training mode, except for a frozen audio tower."""
        nn.Module.train(self, mode)
        if self.frozen:
            self.tower.eval()
        return self

    def _refuse_others(self, settings: FrontEndSettings) -> None:
        adapter, prompt = self.sections.adapter, self.sections.prompt
        others = {
            "front_end.layer": settings.layer != "last",
            "front_end.dropout": settings.dropout,
            "front_end.layer_drop": settings.layer_drop,
            "front_end.time_mask_proportion": settings.time_mask_proportion,
            "front_end.channel_mask_proportion": settings.channel_mask_proportion,
            "front_end.normalize_waveforms": settings.normalize_waveforms,
            "front_end.repeat_last_frame": settings.repeat_last_frame,
            "adapter.width": adapter.width,
            "prompt.tokens": prompt.tokens,
            "prompt.wavelet_tokens": prompt.wavelet_tokens,
        }
        for name, is_set in others.items():
            if is_set:
                raise UsageError(
                    f"{name} does not apply to asdf.networks.AudioLanguageModel. Leave it at its "
                    "default; lora.*, front_end.trained_parts and front_end.frozen choose what is "
                    "trained."
                )


def tiny_config() -> dict[str, Any]:
    """Return the configuration of a Qwen2-Audio with windows of one second, for dry runs."""
    audio = {
        "model_type": "qwen2_audio_encoder",
        "d_model": 32,
        "encoder_layers": 1,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "num_mel_bins": 128,
        "max_source_positions": 50,
    }
    text = {
        "model_type": "qwen2",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": _TINY_VOCABULARY,
        "max_position_embeddings": 8192,
    }
    return {
        "model_type": "qwen2_audio",
        "audio_config": audio,
        "text_config": text,
        "audio_token_index": _TINY_AUDIO_TOKEN,
    }


def tiny_words(settings: LanguageModel) -> str:
    """Return a tokenizer of bytes and of the words in the settings."""
    answers = (settings.bona_fide_answer, settings.spoof_answer)
    return byte_words((*_SPECIAL, settings.end, *answers))
