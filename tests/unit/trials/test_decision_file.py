"""Files of decisions: the words of the field become 1 and 0, others are refused."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from asdf.trials.formats import read_decisions


@pytest.mark.parametrize(
    "text",
    [
        "a.wav bonafide\nb c.wav spoof\n",
        "name,predict\na.wav,real\nb c.wav,fake\n",
        'name,predict\n"a.wav","Real"\n"b c.wav","FAKE"\n',
        "filename\tlabel\na.wav\t1\nb c.wav\t0\n",
        "a.wav genuine\nb c.wav deepfake\n",
    ],
)
def test_words_become_scores(tmp_path, text):
    path = tmp_path / "d.txt"
    path.write_text(text)
    file = read_decisions(path)
    assert (list(file.ids), file.scores.tolist(), file.labels) == (
        ["a.wav", "b c.wav"],
        [1, 0],
        None,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\nb 0.7\n", "line 2: expected an utterance and a class.*leave out --decisions"),
        ("a 1\nname,predict\n", "line 2: expected an utterance and a class"),
        ("a 1\nb\n", "line 2"),
        ("a 1\na 0\n", "already"),
        ("name,predict\n", "no trial"),
    ],
)
def test_others_are_refused(tmp_path, text, message):
    path = tmp_path / "d.txt"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        read_decisions(path)
