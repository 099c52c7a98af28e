"""A detector that is an audio language model, scored by its answer to a prompt.

Invariant: the score is the difference of the language model's logits for two answers at the last
token of the prompt, where learned and generated texts begin as well. One pass therefore gives the
score and the loss of a text, and the score does not depend on the text.

Shapes: B utterances, T samples, S tokens of a recording, K tokens of a text, H numbers of a state,
V tokens of the vocabulary, R tokens that are generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.data.batches import LENGTHS
from asdf.errors import UsageError
from asdf.networks.heads import attach_head, module_name
from asdf.networks.interface import COLUMNS, DetectorNetwork, Outputs
from asdf.networks.language_models.pretrained_language_model import PretrainedLanguageModel
from asdf.networks.language_models.rationale import KEY, NO_TOKEN
from asdf.networks.language_models.words import Words
from asdf.networks.views import NetworkSections
from asdf.settings.sections.language_models import AUDIO

TEXT_LOSS = "text_loss"
"""Key of the extra with the loss of each utterance's text, (B,); 0 for an empty text."""


class AudioLanguageModel(DetectorNetwork):
    """An audio language model of transformers, asked whether speech is bona fide.

    The answers to the prompt in `language_model.prompt` are two tokens. The logit of bona fide is
    the difference of their logits, that of spoof is 0. The embedding is the state at the last token
    of the prompt.

    Attributes:
        front_end: Model from transformers.
        generates: Whether `forward` also generates a text, in `extras['rationale']`.

    Examples:
        >>> import torch
        >>> from asdf.networks import AudioLanguageModel
        >>> from asdf.settings import Sections
        >>> settings = Sections()
        >>> settings.front_end.architecture = "tiny"
        >>> network = AudioLanguageModel(settings).eval()
        >>> embeddings_BE, logits_B2 = network(torch.zeros(2, 16000))
        >>> embeddings_BE.shape, logits_B2.shape
        (torch.Size([2, 32]), torch.Size([2, 2]))
    """

    front_end_class: ClassVar[type[PretrainedLanguageModel]] = PretrainedLanguageModel
    front_end: PretrainedLanguageModel

    def __init__(self, settings: NetworkSections) -> None:
        """Build it with random weights.

        Raises:
            UsageError: the settings name no known model, the prompt lacks a placeholder for the
                recording, or an answer is not one token.
        """
        super().__init__(settings)
        self.options = settings.language_model
        if self.options.prompt.count(AUDIO) != 1:
            raise UsageError(
                f"language_model.prompt has {AUDIO!r} {self.options.prompt.count(AUDIO)} times. "
                "Write it once: it marks where the recording goes."
            )
        self.front_end = PretrainedLanguageModel(settings.front_end, settings)
        attach_head(self, Words(self.front_end.own_words))
        self.generates = False
        self.further_inputs: tuple[str, ...] = (LENGTHS,)
        if self.options.text_column is not None:
            self.further_inputs = (LENGTHS, COLUMNS)
            self.input_columns = (self.options.text_column,)
        if self.words.text:
            self.read_answers()

    @property
    def words(self) -> Words:
        """The tokenizer of the model."""
        words: Words = getattr(self, module_name(KEY))
        return words

    def read_words(self, text: str) -> None:
        """Set the tokenizer of the pretrained model.

        Raises:
            UsageError: an answer is not one of its tokens.
        """
        self.words.text = text
        self.read_answers()

    def read_answers(self) -> tuple[int, int]:
        """Return the tokens of the answers for spoof and bona fide.

        Raises:
            UsageError: an answer is not one token, or both are the same.
        """
        options = self.options
        self.words.token("end", options.end)
        spoof = self.words.token("spoof_answer", options.spoof_answer)
        bona_fide = self.words.token("bona_fide_answer", options.bona_fide_answer)
        if spoof == bona_fide:
            raise UsageError(
                "language_model.spoof_answer and bona_fide_answer are both "
                f"{options.spoof_answer!r}: the score would be 0. Choose two words."
            )
        return spoof, bona_fide

    def forward(  # type: ignore[override]
        self,
        waveforms_BT: Tensor,
        lengths: Tensor | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> Outputs:
        """Return embeddings (B, H) and logits (B, 2), and the loss of texts if these are given.

        Args:
            waveforms_BT: Waveforms (batch, samples) at 16 kHz.
            lengths: Samples of each recording before padding, (B,); None without padding.
            columns: Texts of the utterances, in the column `language_model.text_column`.
        """
        audio_BSH, heard_BS = self.front_end.hear(waveforms_BT, lengths)
        before, after = self.options.prompt.split(AUDIO)
        parts = [self._read(before, audio_BSH), audio_BSH, self._read(after, audio_BSH)]
        last = sum(part.shape[1] for part in parts) - 1
        texts = (columns or {}).get(str(self.options.text_column))
        text_BK = None
        if texts is not None:
            text_BK = self._targets(texts, audio_BSH.device)
            # The last token predicts nothing. Any token may stand for padding: it has no loss.
            parts.append(self._embed(text_BK[:, :-1].clamp(min=0)))
        states_BLH = self._read_on(parts, heard_BS)
        state_BH = states_BLH[:, last]
        answers_B2 = self._logits(state_BH)[:, list(self.read_answers())]
        # Subtract the logit of the spoof answer, so that column 1 is the score for every reader.
        logits_B2 = answers_B2 - answers_B2[:, :1]
        embeddings_BH = state_BH
        if self.options.pooling == "audio":
            start = parts[0].shape[1]
            heard_BLH = states_BLH[:, start : start + audio_BSH.shape[1]]
            embeddings_BH = _mean(heard_BLH, heard_BS)
        outputs = Outputs(embeddings_BH, logits_B2)
        if text_BK is not None:
            said_BVK = self._logits(states_BLH[:, last:]).float().transpose(1, 2)
            return outputs.with_extra(TEXT_LOSS, text_losses(said_BVK, text_BK))
        if self.generates and not self.training:
            return outputs.with_extra(KEY, self._generate(torch.cat(parts, dim=1)))
        return outputs

    def front_end_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the audio tower."""
        yield from self.front_end.tower.parameters()

    def _read(self, text: str, like_BSH: Tensor) -> Tensor:
        """Return the embedded tokens of a part of the prompt, (B, tokens, H)."""
        tokens = torch.tensor(self.words.encode(text), dtype=torch.long, device=like_BSH.device)
        return self._embed(tokens.expand(len(like_BSH), -1))

    def _embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.front_end.model.get_input_embeddings()(tokens)
        return embedded

    def _read_on(self, parts: list[Tensor], heard_BS: Tensor | None) -> Tensor:
        """Return the last states of the language model at all tokens, (B, L, H)."""
        kind = parts[0].dtype
        embedded_BLH = torch.cat([part.to(kind) for part in parts], dim=1)
        inputs: dict[str, Any] = {}
        if heard_BS is not None:
            # Attention skips padding, which has no position.
            masks = [part.new_ones(part.shape[:2], dtype=torch.long) for part in parts]
            masks[1] = heard_BS.long()
            mask_BL = torch.cat(masks, dim=1)
            positions_BL = (mask_BL.cumsum(dim=1) - 1).clamp(min=0)
            inputs = {"attention_mask": mask_BL, "position_ids": positions_BL}
        model = self.front_end.model.model.language_model
        output = model(inputs_embeds=embedded_BLH, use_cache=False, **inputs)
        states_BLH: Tensor = output.last_hidden_state
        return states_BLH

    def _logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.front_end.model.lm_head(states)
        return logits

    def _targets(self, texts: Sequence[str], device: torch.device) -> Tensor:
        """Return the tokens of texts and their end token, (B, K), padded with `NO_TOKEN`."""
        end = self.words.token("end", self.options.end)
        rows = []
        for text in texts:
            tokens = [*self.words.encode(text), end] if text else []
            rows.append(tokens[: self.options.text_tokens])
        # At least one column, even if all texts are empty.
        longest = max([1, *map(len, rows)])
        padded = [row + [NO_TOKEN] * (longest - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.long, device=device)

    def _generate(self, embedded_BLH: Tensor) -> Tensor:
        """Return the likeliest token after each token, (B, R), and whether the text is cut off."""
        from transformers import GenerationConfig

        end = self.words.token("end", self.options.end)
        longest = self.options.rationale_tokens
        # Without sampling, so that a recording has the same text each time.
        greedy = GenerationConfig(
            do_sample=False, max_new_tokens=longest, eos_token_id=end, pad_token_id=end
        )
        tokens_BR = self.front_end.model.generate(
            inputs_embeds=embedded_BLH,
            attention_mask=embedded_BLH.new_ones(embedded_BLH.shape[:2], dtype=torch.long),
            generation_config=greedy,
        )
        tokens_BR = F.pad(tokens_BR, (0, longest - tokens_BR.shape[1]), value=end)
        is_end_BR = tokens_BR == end
        has_ended_BR = is_end_BR.cumsum(dim=1) > 0
        cut_B1 = ~has_ended_BR[:, -1:]
        return torch.cat([tokens_BR.masked_fill(has_ended_BR, NO_TOKEN), cut_B1.long()], dim=1)


def text_losses(logits_BVK: Tensor, text_BK: Tensor) -> Tensor:
    """Return the mean cross-entropy of the tokens of each text, (B,); 0 for an empty one."""
    losses_BK = F.cross_entropy(logits_BVK, text_BK, ignore_index=NO_TOKEN, reduction="none")
    counts_B = (text_BK != NO_TOKEN).sum(dim=1)
    losses_B: Tensor = losses_BK.sum(dim=1) / counts_B.clamp(min=1)
    return losses_B


def _mean(states_BSH: Tensor, heard_BS: Tensor | None) -> Tensor:
    """Return the mean of the states that are not padding, (B, H)."""
    if heard_BS is None:
        return states_BSH.mean(dim=1)
    counts_B1 = heard_BS.sum(dim=1, keepdim=True).clamp(min=1)
    return (states_BSH * heard_BS[..., None]).sum(dim=1) / counts_B1
