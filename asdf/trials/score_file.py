"""ASDF's score file: a trial per line, `relative/path.flac 1 <score>`; 1 is bona fide, 0 is spoof.

Invariant: files hold complete, valid sets of trials: each utterance once, each score finite.
Otherwise a metric would look right without being so: a repeated trial changes the EER, and a NaN
sorts above every score. Identifiers may contain spaces, so lines are split from the right.

Scores of a speaker verification (ASV) system, for tandem metrics, are of target, nontarget and
spoof trials, according to their file or a file of keys. As in the package of ASVspoof 2021, the two
files are joined line by line; files with different numbers of lines are refused.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asdf.arrays import AnyIntegers, Floats, Indices, Labels
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath, quoted_and_more, read_number, read_numbers
from asdf.trials.how_scored import check_unchanged
from asdf.trials.text_lines import blocks_of, numbered_lines
from asdf.trials.trial_list import (
    LABELS,
    UNLABELLED,
    TrialList,
    find_repeated_recordings,
    values_at,
)

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Scores(TrialList):
    """Trials with a score each, in the order of their file; `UNLABELLED` if it states no labels.

    Attributes:
        scores: Scores (trials,), higher for bona fide.
        found: List that the trials were found in, and their indices there; None if unknown.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores
        >>> labels = np.array([1, 0, 0])
        >>> attacks = ["-", "A01", "A02"]
        >>> values = np.array([2.0, -1.0, 0.5])
        >>> scores = Scores(list("abc"), labels, values, columns={"attack": attacks})
        >>> scores.spoof
        array([-1. ,  0.5])
        >>> scores.select(np.array([0, 2])).attacks
        ['-', 'A02']
    """

    scores: Floats
    found: tuple[TrialList, Indices] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.scores) != len(self.ids):
            raise ValueError(f"{len(self.scores)} scores for {len(self.ids)} trials")

    @classmethod
    def of(cls, trials: TrialList, scores: Floats) -> Scores:
        """Return these trials with these scores."""
        return cls(trials.ids, trials.labels, scores, columns=trials.columns)

    def select(self, indices: AnyIntegers) -> Scores:
        """Return the scored trials at `indices`, in that order."""
        return Scores.of(super().select(indices), self.scores[indices])

    @property
    def attacks(self) -> Sequence[str] | None:
        """The attack of each trial; None if unknown."""
        return self.columns.get("attack")

    @property
    def bona_fide(self) -> Floats:
        """The scores of the bona fide trials, in the order of the file."""
        scores: Floats = self.scores[self.labels == 1]
        return scores

    @property
    def spoof(self) -> Floats:
        """The scores of the spoof trials, in the order of the file."""
        scores: Floats = self.scores[self.labels == 0]
        return scores


def read_scores(path: AnyPath, *, both_classes: bool = True) -> Scores:
    """Read ASDF's score file, plain or gzipped.

    Args:
        both_classes: Whether both classes are required; False for a file to be joined with another.

    Raises:
        AsdfError: a line is malformed, a label is not 0 or 1, a score is not a finite number, or an
            utterance is repeated, with file and line; or the file is empty or lacks a class.

    Examples:
        >>> from asdf.evaluation import eer, read_scores, write_scores
        >>> write_scores("dev.txt", ["a", "b", "c"], [1, 0, 1], [2.5, -1.0, 0.5])
        >>> scores = read_scores("dev.txt")
        >>> scores.scores[scores.labels == 1].tolist()
        [2.5, 0.5]
    """
    return read_labelled(path, OURS, both_classes=both_classes)


@dataclass(frozen=True)
class LineFormat:
    """A format of lines of words, of which only the utterance, the first, may contain spaces.

    Attributes:
        shape: A line, for messages.
        columns: Number of columns: utterance, label and score, or the attack after the utterance.
        labels: Label of each word, in lower case, that stands before the score.
        meaning: Sentence on the labels, for messages, if their words do not say it.
    """

    shape: str
    columns: int
    labels: Mapping[str, int]
    meaning: str = ""


OURS = LineFormat(
    "relative/path.flac 0|1 SCORE", 3, LABELS, " 1 means bona fide and 0 means spoof."
)


def read_labelled(path: AnyPath, lines: LineFormat, *, both_classes: bool) -> Scores:
    """Read a score file of lines with labels; as `read_scores`."""
    collector = ScoreCollector(path)
    label_of = lines.labels.get
    count = lines.columns
    for numbers, texts in blocks_of(numbered_lines(path)):
        rows = [line.rsplit(None, count - 1) for line in texts]
        labels = [label_of(cells[-2].lower(), -1) if len(cells) == count else -1 for cells in rows]
        sound = labels.index(-1) if -1 in labels else len(labels)
        collector.extend(
            numbers[:sound],
            [cells[0] for cells in rows[:sound]],
            [cells[-1] for cells in rows[:sound]],
            labels[:sound],
            [cells[1] for cells in rows[:sound]] if count == 4 else [],
        )
        if sound < len(rows):
            raise AsdfError(
                f"{path}, line {numbers[sound]}: expected '{lines.shape}', found '{texts[sound]}'."
                f"{lines.meaning}"
            )
    return collector.scores(both_classes=both_classes)


def require_labels(path: AnyPath, scores: Scores, *, both_classes: bool = True) -> Scores:
    """Return the scores of a file, whose labels it states.

    Args:
        both_classes: Whether both classes are required; False for a file to be joined with another.

    Raises:
        AsdfError: it states none, or a class has no trial.
    """
    if scores.count_unlabelled:
        _, first = next(numbered_lines(path))
        raise AsdfError(
            f"{path}, line 1: '{first}' has no label. Give the protocol of the set too, or a file "
            "of lines 'relative/path.flac 1 <score>'."
        )
    if both_classes:
        refuse_one_class(path, scores.labels)
    return scores


def refuse_one_class(path: AnyPath, labels: Labels) -> None:
    """Refuse labels of a score file if a class is missing.

    Raises:
        AsdfError: a class is missing.
    """
    if missing := missing_class(labels):
        raise AsdfError(
            f"{path}: none of the {labels.size} trials is {missing}. Error rates need both "
            "classes: check the labels of the list that was scored, or the protocol."
        )


class ScoreCollector:
    """The scored trials of a file, added in the order of its lines and checked as a whole."""

    def __init__(self, path: AnyPath) -> None:
        self._path = path
        self._lines = array("I")
        self._ids: list[str] = []
        self._labels = array("b")
        self._scores = array("d")
        self._attacks: list[str] = []

    def add(self, line: int, utterance: str, score: str, label: int = 0) -> None:
        """Add the trial of a line; see `extend`."""
        self.extend([line], [utterance], [score], [label])

    def extend(
        self,
        lines: Sequence[int],
        utterances: Sequence[str],
        scores: Sequence[str],
        labels: Iterable[int],
        attacks: Iterable[str] = (),
    ) -> None:
        """Add the trials of some lines, with the texts of their scores.

        Raises:
            AsdfError: a text is not a number.
        """
        self._lines.extend(lines)
        self._ids.extend(utterances)
        self._labels.extend(labels)
        self._attacks.extend(attacks)
        try:
            self._scores.extend(read_numbers(scores))
        except ValueError:
            for score, line in zip(scores, lines, strict=True):
                parse_score(score, self._path, line)
            raise

    def scores(self, *, both_classes: bool = False, has_labels: bool = True) -> Scores:
        """Return all scores.

        Args:
            has_labels: Whether the labels are those of the file, which states none otherwise.

        Raises:
            AsdfError: there is no trial; the trials or lines are not those stated next to the file;
                a score is not finite, an utterance is repeated, or a class is missing although
                `both_classes` is set.
        """
        if not self._ids:
            raise AsdfError(
                f"{self._path}: no trials found. Was the scoring interrupted? Score the set again."
            )
        check_unchanged(self._path, len(self._ids))
        values = np.array(self._scores)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            first = bad[0]
            raise AsdfError(
                f"{self._path}, line {self._lines[first]}: the score of '{self._ids[first]}' is "
                f"{values[first]} ({bad.size} of {values.size} scores are not finite). Score in "
                "fp32, with a network that did not diverge."
            )
        # Paths that differ only in spelling are the same recording, which would count twice.
        repeats = find_repeated_recordings(self._ids)
        if repeats:
            index, earlier = repeats[0]
            is_same = self._ids[earlier] == self._ids[index]
            spelling = "" if is_same else f" as '{self._ids[earlier]}'"
            raise AsdfError(
                f"{self._path}, line {self._lines[index]}: '{self._ids[index]}' was already scored "
                f"in line {self._lines[earlier]}{spelling} ({len(repeats)} of "
                f"{len(self._ids)} lines repeat a trial). Was the file opened for appending? Score "
                "the set again."
            )
        labels = np.array(self._labels, np.int8)
        if not has_labels:
            labels[:] = UNLABELLED
        if both_classes:
            refuse_one_class(self._path, labels)
        columns = {"attack": self._attacks} if self._attacks else {}
        return Scores(self._ids, labels, values, columns=columns)


def parse_score(text: str, path: AnyPath, line: int) -> float:
    """Return a score as a number, finite or not.

    Raises:
        AsdfError: the text is not a number; the message names file and line.
    """
    try:
        return read_number(text)
    except ValueError:
        raise AsdfError(f"{path}, line {line}: the score '{text}' is not a number.") from None


def missing_class(labels: AnyIntegers) -> str:
    """Return the class without trials, 'bona fide' or 'spoof'; '' if both have trials."""
    for label, name in ((1, "bona fide"), (0, "spoof")):
        if not (labels == label).any():
            return name
    return ""


def write_scores(
    path: AnyPath, ids: Sequence[str], labels: Iterable[int], scores: npt.ArrayLike
) -> None:
    """Write a score file atomically, in the order of `ids`, the same bytes for the same scores.

    If all scores are float32 numbers (whatever their dtype), they are written in the shortest form
    that restores the same float32; otherwise in the shortest form that restores the same float64.
    Both preserve order and ties.

    Raises:
        AsdfError: a score is not finite (the first such utterances are named), an utterance is
            repeated, an identifier cannot be written in a line, or there is no utterance; an
            existing file at `path` is unchanged.
        ValueError: the counts differ, or a label is neither 0 nor 1.

    Examples:
        >>> from asdf.evaluation import read_scores, write_scores
        >>> write_scores("dev.txt", ["a", "b"], [1, 0], [2.5, -1.0])
        >>> scores = read_scores("dev.txt")
        >>> list(scores.ids), scores.scores.tolist()
        (['a', 'b'], [2.5, -1.0])
    """
    keys = np.asarray(list(labels))
    values = np.asarray(scores, dtype=np.float64)
    if not keys.shape == values.shape == (len(ids),):
        raise ValueError(
            f"{len(ids)} ids, labels of shape {keys.shape} and scores of shape {values.shape} do "
            "not match"
        )
    if not np.isin(keys, (0, 1)).all():
        raise ValueError("labels must be 1 (bona fide) or 0 (spoof)")
    check_writable(path, ids, values)
    with atomic_write(path) as file:
        rows = zip(ids, keys.astype(int), score_texts(values), strict=True)
        file.writelines(f"{utterance} {key:d} {score}\n" for utterance, key, score in rows)


def write_unlabelled_scores(path: AnyPath, ids: Sequence[str], scores: Floats) -> None:
    """Write `UTT SCORE` lines atomically, formatted and checked as in `write_scores`."""
    check_writable(path, ids, scores)
    with atomic_write(path) as file:
        rows = zip(ids, score_texts(scores), strict=True)
        file.writelines(f"{utterance} {score}\n" for utterance, score in rows)


def check_writable(path: AnyPath, ids: Sequence[str], values: Floats) -> None:
    """Refuse trials that could not be read back as a complete, valid set.

    Raises:
        AsdfError: as `write_scores`.
    """
    if not len(ids):
        raise AsdfError(
            f"cannot write {Path(path)}: no utterance was scored. Is the list of the set empty?"
        )
    # A name must be unchanged after writing it in a UTF-8 line and reading it back; names of files
    # may contain bytes that are not UTF-8.
    unwritable = [
        name
        for name in ids
        if not name
        or name != name.strip()
        or name != name.encode(errors="replace").decode()
        or "\n" in name
        or "\r" in name
    ]
    for names, problem, advice in (
        (
            values_at(ids, np.flatnonzero(~np.isfinite(values))),
            "got a score that is NaN or infinite",
            "Score in fp32, with a network that did not diverge",
        ),
        (
            [name for name, count in Counter(ids).items() if count > 1],
            "are named more than once",
            "Check the list for repeated lines, or write one list with all folders",
        ),
        (unwritable, "have a name that cannot be written on one line", "Rename the files"),
    ):
        if names:
            raise AsdfError(
                f"cannot write {Path(path)}: {len(names)} of {len(ids)} utterances {problem}: "
                f"{quoted_and_more(names, _SHOWN)}. {advice}."
            )


def score_texts(scores: Floats) -> Iterator[str]:
    """Return each score in the shortest form that restores it.

    This refers to float32 if all scores are float32 numbers, else to float64.
    """
    # Beyond the range of float32 a score becomes infinite and differs, so float64 is used.
    with np.errstate(over="ignore"):
        short = scores.astype(np.float32)
    if (short == scores).all():
        return map(str, short)
    return map(repr, scores.tolist())


_KEYS = ("target", "nontarget", "spoof")


@dataclass(frozen=True, eq=False)
class AsvScores:
    """Scores of a speaker verification system: of target, nontarget and spoof trials.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import AsvScores, asv_rates
        >>> asv = AsvScores(np.array([3.0, 2.0]), np.array([-1.0, 0.0]), np.array([2.5, 0.5]))
        >>> asv_rates(asv).spoof_false_alarm
        1.0
    """

    target: Floats
    nontarget: Floats
    spoof: Floats


def read_asv_scores(
    path: AnyPath, keys: AnyPath | None = None, subset: str | None = None
) -> AsvScores:
    """Read the organisers' ASV scores, `SOURCE KEY SCORE`, KEY target, nontarget or spoof.

    Args:
        keys: File of keys for scores without keys, as in ASVspoof 2021. The key of a score is in
            the same line of this file: the sixth of eight columns, the last of which is the subset.
        subset: Subset in `keys` to read; None for all.

    Raises:
        AsdfError: a line is malformed or a score is not finite, with file and line; the two files
            have different numbers of lines; or a key never occurs.

    Examples:
        >>> from asdf.evaluation import read_asv_scores
        >>> read_asv_scores("asv.txt").target
        array([2.5, 3. ])
    """
    # Read everything before joining keys, since a missing or extra line would shift all keys.
    lines = list(numbered_lines(path))
    stated = None if keys is None else _read_keys(keys, path, len(lines))
    scores: dict[str, list[float]] = {key: [] for key in _KEYS}
    for index, (number, line) in enumerate(lines):
        cells = line.rsplit(None, 2)
        # Without a file of keys the subset of a trial is unknown, so all trials are taken.
        key, part = cells[1] if len(cells) == 3 else "", subset
        if stated is not None:
            key, part = stated[index]
        if len(cells) != 3 or key not in scores:
            hint = " Scores without keys need --asv-keys." if stated is None else ""
            raise AsdfError(
                f"{path}, line {number}: expected 'SOURCE target|nontarget|spoof SCORE', found "
                f"'{line}'.{hint}"
            )
        score = parse_score(cells[2], path, number)
        # The metrics would refuse it too, but only this reader knows its line.
        if not np.isfinite(score):
            raise AsdfError(f"{path}, line {number}: the score '{cells[2]}' is not finite.")
        if subset in (None, part):
            scores[key].append(score)
    chosen = f" of subset {subset}" if subset and stated is not None else ""
    for name, values in scores.items():
        if not values:
            raise AsdfError(f"{path}: no {name} trials{chosen} found, which tandem metrics need.")
    return AsvScores(*(np.array(scores[key]) for key in _KEYS))


def _read_keys(path: AnyPath, scores: AnyPath, count: int) -> list[tuple[str, str]]:
    """Read the ASV protocol of ASVspoof 2021, key and subset for each of the `count` scores."""
    keys = []
    for number, line in numbered_lines(path):
        cells = line.split()
        if len(cells) != 8 or cells[5] not in _KEYS:
            raise AsdfError(
                f"{path}, line {number}: expected eight columns, the sixth of them target, "
                f"nontarget or spoof, found '{line[:120]}'."
            )
        keys.append((cells[5], cells[7]))
    if len(keys) != count:
        raise AsdfError(
            f"{scores} has {count} scores, but {path} has {len(keys)} keys: both must list the "
            "same trials, line by line."
        )
    return keys
