"""The tokenizer of a language model, as a part of the network and of its file.

Invariant: a tokenizer is data, the text of a tokenizer.json, which the package tokenizers reads; no
code of a model's folder runs. A network file includes the text, so it needs no other file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.networks.extras import Extra
from asdf.networks.heads import Head
from asdf.networks.interface import Outputs
from asdf.networks.language_models.rationale import KEY, RationaleExtra
from asdf.networks.views import NetworkSections
from asdf.text import quoted_and_more, shorten

INSTALL = (
    "asdf.networks.AudioLanguageModel needs the package transformers: pip install "
    "'asdf-antispoofing[transformers]'"
)
_SHOWN = 8


class Words(Head):
    """The tokenizer of a network's language model.

    Attributes:
        text: Text of its tokenizer.json; '' until the weights of the model are loaded.
    """

    key = KEY

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without added special tokens.

        Raises:
            AsdfError: the weights of the model, which include its tokenizer, are not loaded.
        """
        if not self.text:
            raise AsdfError(
                "the tokenizer of the language model is not loaded: its weights are random. Build "
                "the network with asdf.interchange.build_pretrained(settings)."
            )
        tokens: list[int] = _open(self.text).encode(text, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        text: str = _open(self.text).decode(list(tokens), skip_special_tokens=True)
        return text

    def token(self, setting: str, word: str) -> int:
        """Return the single token of a word.

        Args:
            setting: Setting that holds the word, for messages.

        Raises:
            UsageError: the word has several tokens, or none.
        """
        tokens = self.encode(word)
        if len(tokens) == 1:
            return tokens[0]
        opened = _open(self.text)
        names = [str(opened.id_to_token(token)) for token in tokens]
        raise UsageError(
            f"language_model.{setting} = {word!r} is {len(tokens)} tokens of this model: "
            f"{quoted_and_more(names, _SHOWN)}. Choose a word that is one token."
        )

    @property
    def size(self) -> int:
        """The number of tokens in the vocabulary."""
        size: int = _open(self.text).get_vocab_size()
        return size

    def values(self, outputs: Outputs) -> Any:
        """Return the tokens that the network generated."""
        return outputs.extras[KEY]

    def complete(self, outputs: Any) -> Any:
        """Return the outputs unchanged, since a text is generated only on request."""
        return outputs

    def describe(self) -> dict[str, Any]:
        """Return the entry of a network file."""
        return {"tokenizer": self.text}

    @classmethod
    def restore(cls, entry: Mapping[str, Any], settings: NetworkSections) -> Words:
        """Return the tokenizer in a network file."""
        text = entry.get("tokenizer")
        if not isinstance(text, str):
            raise ValueError("it has no tokenizer")
        if text:
            check_tokenizer(text)
        return cls(text)

    def extra(self) -> Extra:
        """Return the extra for results: the text of generated tokens."""
        return RationaleExtra(self.decode)


def byte_words(tokens: Sequence[str]) -> str:
    """Return the text of a tokenizer with single bytes, and with whole `tokens`."""
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(BPE({letter: number for number, letter in enumerate(letters)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    whole = []
    for token in dict.fromkeys(tokens):
        if token not in letters:
            # Special tokens are left out of decoded texts.
            whole.append(AddedToken(token, normalized=False, special=token.startswith("<|")))
    made.add_tokens(whole)
    text: str = made.to_str()
    return text


def check_tokenizer(text: str) -> None:
    """Raise a ValueError if a text is not a valid tokenizer.json."""
    _open(text)


@lru_cache(maxsize=4)
def _open(text: str) -> Any:
    """Return the tokenizer of a text.

    Raises:
        ValueError: the text is not a tokenizer.
        UsageError: the package tokenizers is missing.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError(f"{INSTALL} ({error}).") from error
    try:
        json.loads(text)
        return Tokenizer.from_str(text)
    # The package raises plain Exceptions.
    except Exception as error:
        raise ValueError(f"it is not a tokenizer.json ({shorten(str(error))})") from error
