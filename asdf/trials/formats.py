"""Score files of any system: ASDF, the ASVspoof challenges, and most published systems.

Invariant: every reader ends with the same checks as that of ASDF's own format, and labels are never
guessed: if a file has none, `asdf.trials.matching` takes them from a protocol. In a file of
decisions, as some challenges require, a class becomes the score 1 (bona fide) or 0 (spoof); a word
that names neither class is refused.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from asdf.errors import AsdfError
from asdf.text import AnyPath, read_number
from asdf.trials.label_files import PATHS
from asdf.trials.score_file import LineFormat, ScoreCollector, Scores, read_labelled, read_scores
from asdf.trials.text_lines import blocks_of, numbered_lines, peek
from asdf.trials.trial_list import LABELS

# Names of columns in a table of scores, in lower case, without separators.
_PATHS = frozenset({*PATHS, "idaudio", "trial"})
_SCORES = frozenset({"score", "scores", "cmscore", "llr"})
_LOGITS = frozenset({"scorebonafide", "scorespoof"})
_LOGGED = "Output,"
_LOG = ["output", "path", "target", "score"]
# Without 1 and 0, unlike the keys of label files, since these mark a score file of ASDF.
KEYS = {"bonafide": 1, "bona-fide": 1, "spoof": 0}
CLASSES = {**KEYS, **LABELS, "genuine": 1, "real": 1, "fake": 0, "deepfake": 0}
BETWEEN = 0.5
"""The threshold between the scores of the two decisions."""

_HEADERS = ("predict", "prediction", "decision", "label", "key")
_KEYED = LineFormat("UTT ATTACK bonafide|spoof SCORE", 4, KEYS)
# How the table of `score --csv` begins; the score's column is named after its kind.
_TABLE = "path,start_s,end_s,"
Format = Literal["asdf", "keyed", "two columns", "csv", "table", "document"]


def read_score_file(path: AnyPath, is_trial: Callable[[str], bool] | None = None) -> Scores:
    """Read a score file in the format of its first line.

    `PATH 0|1 SCORE` is ASDF's format, `UTT ATTACK bonafide|spoof SCORE` that of
    `read_keyed_scores`, a csv that of `read_score_csv`, a table or a document of `score` that of
    `read_scored_table`, anything else that of `read_two_columns`, which has no labels. Labels that
    the file does not state are `UNLABELLED`.

    Args:
        is_trial: Function that says whether the protocol has an utterance, as in `score_format`.

    Raises:
        AsdfError: as in the readers of the formats, except that a class may be missing.
    """
    first, _ = peek(numbered_lines(path))
    file_format = score_format(first, is_trial)
    if file_format not in ("asdf", "keyed"):
        others = {"two columns": read_two_columns, "csv": read_score_csv}
        return others.get(file_format, read_scored_table)(path)
    # A class may be missing, since labels of a protocol may replace those in the file.
    read = read_scores if file_format == "asdf" else read_keyed_scores
    return read(path, both_classes=False)


def score_format(first: str, is_trial: Callable[[str], bool] | None = None) -> Format:
    """Return the format of a score file with this first line; an empty file is one of ASDF's.

    Args:
        is_trial: Function that says whether the protocol has an utterance. It decides lines such as
            `take 1 0.5`, the score of either `take 1`, or `take` with its label.
    """
    cells = first.split()
    if not cells:
        return "asdf"
    if first.startswith(_TABLE):
        return "table"
    if _columns_of(first)[0]:
        return "csv"
    if first == "{":
        return "document"
    utterance = first.rsplit(None, 1)[0]
    # A TAB separates two columns, but a name may hold one too, as in `a TAB b.flac 1 0.5`.
    _, *scores = first.split("\t")
    is_tabbed = len(scores) == 1 and len(scores[0].split()) == 1
    if is_tabbed or (is_trial is not None and is_trial(utterance)):
        return "two columns"
    if len(cells) >= 3 and cells[-2] in LABELS:
        return "asdf"
    if len(cells) >= 4 and cells[-2].lower() in KEYS:
        return "keyed"
    return "two columns"


def read_keyed_scores(path: AnyPath, *, both_classes: bool = True) -> Scores:
    """Read `UTT ATTACK KEY SCORE`, KEY bonafide or spoof, as the systems of ASVspoof 2019 write it.

    Raises:
        AsdfError: as in `read_scores`.
    """
    return read_labelled(path, _KEYED, both_classes=both_classes)


def read_two_columns(path: AnyPath) -> Scores:
    """Read `UTT SCORE` (ASVspoof 2021) or the TAB file `filename cm-score` with its header (5).

    Raises:
        AsdfError: as in `read_scores`, except for missing classes.
    """
    collector = ScoreCollector(path)
    for numbers, texts, rows in _pairs(path, "\t", ("cm-score", "score")):
        sizes = list(map(len, rows))
        sound = sizes.index(1) if 1 in sizes else len(rows)
        utterances = [cells[0] for cells in rows[:sound]]
        scores = [cells[1] for cells in rows[:sound]]
        collector.extend(numbers[:sound], utterances, scores, [0] * sound)
        if sound < len(rows):
            line = texts[sound]
            advice = " A csv needs a header such as file,score." if "," in line else ""
            raise AsdfError(
                f"{path}, line {numbers[sound]}: expected 'UTT SCORE', found '{line}'.{advice}"
            )
    return collector.scores(has_labels=False)


def read_decisions(path: AnyPath, is_trial: Callable[[str], bool] | None = None) -> Scores:
    """Read lines 'UTT CLASS', 'UTT,CLASS' or 'UTT TAB CLASS', with a header or without one.

    Args:
        is_trial: Argument of readers of score files, which is not needed here.

    Raises:
        AsdfError: a word is not a class or an utterance is repeated, with file and line; or the
            file is empty.
    """
    collector = ScoreCollector(path)
    for block in _pairs(path, "\t,", _HEADERS):
        for number, line, cells in zip(*block, strict=True):
            word = cells[-1].strip('"').lower()
            if len(cells) != 2 or word not in CLASSES:
                raise AsdfError(
                    f"{path}, line {number}: expected an utterance and one of "
                    f"{', '.join(CLASSES)}, found '{line[:120]}'. To evaluate scores, leave out "
                    "--decisions."
                )
            collector.add(number, cells[0].strip('"'), str(CLASSES[word]))
    return collector.scores(has_labels=False)


def _pairs(
    path: AnyPath, separators: str, headers: Collection[str]
) -> Iterator[tuple[list[int], list[str], list[list[str]]]]:
    """Yield the numbers, the texts and the two cells of some lines at a time, without a header.

    Args:
        separators: Characters that separate the cells, if a line has one of them, else white space.
        headers: Names of the second column in a header.
    """

    def cells_of(line: str) -> list[str]:
        sign = next(filter(line.__contains__, separators), None)
        return [cell.strip() for cell in line.rsplit(sign, 1)]

    may_be_header = True
    for numbers, texts in blocks_of(numbered_lines(path)):
        rows = [line.rsplit(None, 1) for line in texts]
        whole = "".join(texts)
        # Most files have none, and a million lines take half of the time.
        if any(sign in whole for sign in separators):
            rows = list(map(cells_of, texts))
        # Only in the first line; later it would show that files were concatenated, and is an error.
        if may_be_header and rows[0][-1].strip('"').lower() in headers:
            del numbers[0], texts[0], rows[0]
        may_be_header = False
        yield numbers, texts, rows


def read_score_csv(path: AnyPath) -> Scores:
    """Read a table with a header that names recordings, scores and, if it has them, labels.

    Its delimiter is a comma, semicolon, bar or TAB. Instead of a score it may have two, as in
    DeepFense's `ID_audio,label,score_spoof,score_bonafide`: bona fide minus spoof. Label 1 is bona
    fide; with a label that is none of `CLASSES` the file counts as one without labels. So does a
    log of the baselines of ASVspoof 2021, with lines `Output, UTT, TARGET, SCORE`.

    Raises:
        AsdfError: as in `read_scores`, except for missing classes.
    """
    collector = ScoreCollector(path)
    first, lines = peek(numbered_lines(path))
    delimiter, names = _columns_of(first)
    is_log = names == _LOG
    if not is_log:
        next(lines)
    file = next(index for index, name in enumerate(names) if name in _PATHS)
    has_labels = "label" in names
    scored = [name for name in names if name in _SCORES]
    if len(scored) > 1:
        raise AsdfError(f"{path}: the columns {', '.join(scored)} all hold scores. Keep one.")
    for number, line in lines:
        if is_log and not line.startswith(_LOGGED):
            continue
        # Split from the right, since an unquoted name may contain a comma.
        cells = line.rsplit(delimiter, len(names) - 1)
        if '"' in line:
            cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        cells = [cell.strip() for cell in cells]
        if len(cells) != len(names):
            raise AsdfError(f"{path}, line {number}: expected '{first}', found '{line}'.")
        utterance = cells[file]
        if delimiter != ",":
            cells = [cell.replace(",", ".") for cell in cells]
        row = dict(zip(names, cells, strict=True))
        label = CLASSES.get(row.get("label", "").lower())
        has_labels = has_labels and label is not None
        if scored:
            score = row[scored[0]]
        else:
            bona_fide, spoof = row["scorebonafide"], row["scorespoof"]
            score = f"{bona_fide}-{spoof}"
            with suppress(ValueError):
                # As text, since the collector reads and checks scores as they stand in files.
                score = repr(read_number(bona_fide) - read_number(spoof))
        collector.add(number, utterance, score, label or 0)
    return collector.scores(has_labels=has_labels)


def _columns_of(first: str) -> tuple[str, list[str]]:
    """Return the delimiter and the plain names of the columns of a table of scores; else '', []."""
    if first.startswith(_LOGGED):
        return ",", _LOG
    delimiter = next((sign for sign in ";\t|," if sign in first), "\n")
    names = [re.sub(r"[\W_]", "", cell).lower() for cell in first.split(delimiter)]
    has_scores = not _SCORES.isdisjoint(names) or _LOGITS.issubset(names)
    return (delimiter, names) if has_scores and not _PATHS.isdisjoint(names) else ("", [])


def read_scored_table(path: AnyPath) -> Scores:
    """Read the scores of recordings that `score --csv` or `score --json` wrote.

    Scores of their windows, channels and speakers are left out. A likelihood ratio is the one
    before its limits, at which many recordings would tie. Without a label for each, there are none.

    Raises:
        AsdfError: as in `read_scores`, except for missing classes; a recording has no score, or the
            file is damaged or of a command that was interrupted.
    """
    collector = ScoreCollector(path)
    has_labels = True
    for number, row in _rows_of(path):
        # A window or a channel has its start, and a speaker a name.
        if _text(row, "start_s") or _text(row, "speaker"):
            continue
        name = _text(row, "path")
        score = _text(row, "unbounded_llr") or _text(row, "llr") or _text(row, "score")
        if not score:
            reason = _text(row, "error") or "the row has no score"
            raise AsdfError(f"{path}, line {number}: '{name}' was not scored: {reason}")
        label = _text(row, "label")
        has_labels = has_labels and label in ("0", "1")
        collector.add(number, name, score, int(label == "1"))
    return collector.scores(has_labels=has_labels)


def _rows_of(path: AnyPath) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of a table with the numbers of their lines, or the entries of a document."""
    first, lines = peek(numbered_lines(path, strip="\r\n"))
    # A table may have been indented by hand.
    indent = first[: -len(first.lstrip())]
    texts = (line.removeprefix(indent) for _, line in lines)
    if first.strip() != "{":
        for number, row in enumerate(csv.DictReader(texts), start=2):
            if None in row or None in row.values():
                raise AsdfError(f"{path}, line {number}: the row has another number of cells.")
            # What `csv_text` puts before a name that a spreadsheet would take for a formula.
            if re.match("'[=+@-]", row["path"]):
                row["path"] = row["path"][1:]
            yield number, row
        return
    try:
        document = json.loads("\n".join(texts))
        is_complete = document["complete"]
        entries = [dict(entry) for entry in document["recordings"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise AsdfError(
            f"{path} is not a whole document of `score --json`: repeat the command that wrote it."
        ) from None
    if not is_complete:
        raise AsdfError(f"{path} lacks recordings: repeat the command that wrote it.")
    yield from enumerate(entries, start=1)


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value)
