"""Files of decisions instead of scores: a class per utterance, as some challenges require.

Invariant: a decision becomes the score 1 (bona fide) or 0 (spoof), so readers of scores can use it;
a word that names neither class is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from asdf.errors import AsdfError
from asdf.text import AnyPath
from asdf.trials.formats import ScoreFile
from asdf.trials.score_file import ScoreCollector
from asdf.trials.text_lines import numbered_lines

CLASSES = {
    "bonafide": 1,
    "bona-fide": 1,
    "genuine": 1,
    "real": 1,
    "1": 1,
    "spoof": 0,
    "fake": 0,
    "deepfake": 0,
    "0": 0,
}
BETWEEN = 0.5
"""The threshold between the scores of the two decisions."""

_HEADERS = {"predict", "prediction", "decision", "label", "key"}


def read_decisions(path: AnyPath, is_trial: Callable[[str], bool] | None = None) -> ScoreFile:
    """Read lines 'UTT CLASS', 'UTT,CLASS' or 'UTT TAB CLASS', with a header or without one.

    Args:
        is_trial: Argument of readers of score files, which is not needed here.

    Raises:
        AsdfError: a word is not a class or an utterance is repeated, with file and line; or the
            file is empty.
    """
    collector = ScoreCollector(path)
    may_be_header = True
    for number, line in numbered_lines(path):
        separator = next((sign for sign in ("\t", ",") if sign in line), None)
        cells = line.rsplit(separator, 1)
        word = cells[-1].strip().strip('"').lower()
        if may_be_header and word in _HEADERS:
            may_be_header = False
            continue
        may_be_header = False
        if len(cells) != 2 or word not in CLASSES:
            raise AsdfError(
                f"{path}, line {number}: expected an utterance and a class, one of "
                f"{', '.join(CLASSES)}, found '{line[:120]}'. To evaluate scores, leave out "
                "--decisions."
            )
        collector.add(number, cells[0].strip().strip('"'), str(CLASSES[word]))
    scores = collector.scores(both_classes=False)
    return ScoreFile(scores.ids, scores.scores)
