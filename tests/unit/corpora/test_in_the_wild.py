"""In-the-Wild: labels in a csv."""

from __future__ import annotations

import pytest

from asdf.trials.lists import check_files
from tests.unit.corpora.conftest import Lay, Read
from tests.unit.corpora.test_protocols import WILD


@pytest.mark.parametrize("inside", ["", "release_in_the_wild/"])
def test_in_the_wild(lay: Lay, read: Read, inside: str) -> None:
    root = lay({f"{inside}meta.csv": WILD}, f"{inside}0.wav\n{inside}1.wav")
    utterances, _ = read("in-the-wild", root)
    assert utterances.ids == [
        f"{inside}0.wav",
        f"{inside}1.wav",
    ] and utterances.labels.tolist() == [0, 1]
    assert utterances.columns == {"speaker": ["Alec Guinness", "Guinness, Alec"]}
    check_files([utterances])
