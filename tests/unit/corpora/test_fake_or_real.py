"""Fake-or-Real: labels in the names of folders, in several variants."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from tests.unit.corpora.conftest import Lay, Read


@pytest.mark.parametrize(
    ("name", "home", "variant"),
    [
        ("for:testing", "", "for-norm"),
        ("for:testing", "for-norm/", "for-norm"),
        ("for:testing", "for-norm/for-norm/", "for-norm"),
        ("for-2sec:testing", "for-2sec/for-2seconds/", "for-2sec"),
        ("for-rerec:testing", "for-rerecorded/", "for-rerec"),
        ("for-original:testing", "for-original/", "for-original"),
    ],
)
def test_fake_or_real(lay: Lay, read: Read, name: str, home: str, variant: str) -> None:
    real, fake = f"{home}testing/real", f"{home}testing/fake"
    root = lay(
        empty=f"{real}/b.wav_norm.wav\n{real}/a.WAV\n{real}/._a.WAV\n{fake}/c.mp3\n{fake}/notes.txt"
    )
    lay(empty=f"{home}training/real/other.wav")
    utterances, _ = read(name, root)
    assert utterances.ids == [f"{real}/a.WAV", f"{real}/b.wav_norm.wav", f"{fake}/c.mp3"]
    assert utterances.labels.tolist() == [1, 1, 0]
    assert utterances.columns == {"subset": ["testing"] * 3, "variant": [variant] * 3}


def test_a_variant_of_fake_or_real_is_not_taken_for_another(lay: Lay, read: Read) -> None:
    root = lay(empty="for-norm/training/real/a.wav")
    with pytest.raises(AsdfError, match="there is no folder for-2sec/training"):
        read("for-2sec:training", root)
