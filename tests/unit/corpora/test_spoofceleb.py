"""SpoofCeleb: labels in csv files."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from asdf.trials.lists import check_files
from tests.unit.corpora.conftest import Lay, Read
from tests.unit.corpora.test_protocols import CELEB


@pytest.mark.parametrize(("home", "file"), [("", "development"), ("spoofceleb/", "dev")])
def test_spoofceleb(lay: Lay, read: Read, home: str, file: str) -> None:
    audio = f"{home}flac/{file}"
    root = lay(
        {f"{home}metadata/{file}.csv": CELEB},
        f"{audio}/a00/id10318/Y-1.flac\n{audio}/a06/id10318/Y-1.flac",
    )
    utterances, _ = read("spoofceleb:dev", root)
    assert utterances.ids == [f"{audio}/a00/id10318/Y-1.flac", f"{audio}/a06/id10318/Y-1.flac"]
    assert utterances.columns == {"speaker": ["id10318"] * 2, "attack": ["-", "a06"]}
    check_files([utterances])
    with pytest.raises(AsdfError, match=r"no metadata/evaluation\.csv"):
        read("spoofceleb:eval", root)
