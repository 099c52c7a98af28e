"""The section of networks that are audio language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import setting

AUDIO = "{audio}"
"""Placeholder in a prompt for the recording."""

_PROMPT = (
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "<|im_start|>user\nAudio 1: <|audio_bos|>{audio}<|audio_eos|>\n"
    "Is the speech in this recording real or fake?<|im_end|>\n<|im_start|>assistant\n"
)
MAX_TOKENS = 4096


@dataclass
class LanguageModel(KnownNames):
    """The network asdf.networks.AudioLanguageModel: its answer to a prompt is the score.

    The model is what front_end.weights names; lora.* are of its language model's layers.
    """

    prompt: str = setting(
        _PROMPT,
        "text that the model continues, with '{audio}' in place of the recording; special tokens "
        "such as <|im_start|> are written out: nothing is added",
        check="not_empty",
    )
    bona_fide_answer: str = setting(
        "real", "answer that means bona fide, one token of the model", check="not_empty"
    )
    spoof_answer: str = setting(
        "fake", "answer that means spoof, one token of the model", check="not_empty"
    )
    end: str = setting("<|im_end|>", "token that ends the text of the model", check="not_empty")
    pooling: Literal["last", "audio"] = setting(
        "last",
        "embedding: 'last', the last hidden state at the last token of the prompt; 'audio', its "
        "mean over the tokens of the recording",
    )
    text_column: str | None = setting(
        None,
        "column of the training list with the text to generate after the prompt, such as a "
        "rationale; empty: no text; None: it only learns its answer",
    )
    text_weight: float = setting(
        1.0, "factor of the loss of the texts next to that of the answers", above=0
    )
    text_tokens: int = setting(
        256,
        "longest text that is learnt; the rest is cut",
        unit="tokens",
        at_least=1,
        at_most=MAX_TOKENS,
    )
    rationale_tokens: int = setting(
        128, "longest text that is generated", unit="tokens", at_least=1, at_most=MAX_TOKENS
    )
