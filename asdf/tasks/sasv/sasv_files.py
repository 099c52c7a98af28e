"""Files of trials and scores of spoofing-robust speaker verification (SASV).

Invariant: a trial is a pair of a claimed speaker and an utterance and occurs once in a file. Each
score is given for all trials or for none: scores of the countermeasure (CM), of speaker
verification (ASV), and of both together (SASV); higher scores mean a bona fide target. Columns are
identified by their header, or without one by their number and the position of the key.

    keys     spk TAB filename TAB cm-label TAB asv-label     the package of ASVspoof 5, with header
             tar_spk_anon trial_anon ... asv-label ...       its full table of keys, with header
             SPK UTT GENDER ATTACK KEY                       ASVspoof5.*.track_2.trial.tsv
             SPK UTT ATTACK KEY                              SASV 2022
             SPK UTT KEY SOURCE                              WildSpoof
             SPK UTT KEY
    scores   spk TAB filename TAB cm-score TAB asv-score TAB sasv-score    ASVspoof 5, with header;
                                                             `-` in a column that is not there
             SPK UTT SCORE KEY                               SASV 2022 and the a-DCF package
             SPK UTT SCORE
    KEY is target, nontarget (or non) or spoof.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from asdf.arrays import Flags, Floats, Labels
from asdf.errors import AsdfError
from asdf.text import AnyPath, quoted_and_more, read_number
from asdf.trials.score_file import Scores, parse_score, score_texts
from asdf.trials.submission_files import write_text_or_zip
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import bare_name, find_repeats

TARGET = 0
NONTARGET = 1
SPOOF = 2
KINDS = ("target", "nontarget", "spoof")
"""The kinds of trials; the index is their number."""

SYSTEMS = ("cm", "asv", "sasv")
"""The scores that a trial may have."""

KEYS = {"target": TARGET, "nontarget": NONTARGET, "non": NONTARGET, "spoof": SPOOF}
# Alternative names of columns in headers.
_ALIASES = {
    "tar_spk_anon": "spk",
    "speaker": "spk",
    "trial_anon": "filename",
    "utterance": "filename",
    "asv_label": "asv-label",
    "cm_label": "cm-label",
    "attack_anon": "attack",
    "cm_score": "cm-score",
    "asv_score": "asv-score",
    "sasv_score": "sasv-score",
}
_HEADER = ("spk", "filename", "cm-score", "asv-score", "sasv-score")
# Names of columns without a header, by the number of columns and the position of the key.
_LAYOUTS: Mapping[tuple[int, int], tuple[str, ...]] = {
    (3, 2): ("spk", "filename", "asv-label"),
    (4, 2): ("spk", "filename", "asv-label", "source"),
    (4, 3): ("spk", "filename", "attack", "asv-label"),
    (5, 4): ("spk", "filename", "gender", "attack", "asv-label"),
}
# Columns that name a trial or its key: results are not broken down by them.
_NOT_COLUMNS = {"spk", "filename", "asv-label", "cm-label", "track_2_tag"}
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class SasvTrials:
    """Trials with their speakers, utterances and conditions.

    Attributes:
        speakers: Claimed speaker of each trial.
        utterances: Recording of each trial, without folder and suffix.
        kinds: Kinds of the trials, (trials,) int8, `TARGET`, `NONTARGET` or `SPOOF`; None if
            unknown.
        columns: Conditions such as 'attack' ('-' for bona fide) and 'codec', with a value per
            trial.
    """

    speakers: Sequence[str]
    utterances: Sequence[str]
    kinds: Labels | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.utterances)

    def names(self) -> list[tuple[str, str]]:
        """Return (speaker, utterance) of each trial."""
        return list(zip(self.speakers, self.utterances, strict=True))


@dataclass(frozen=True, eq=False)
class SasvScores:
    """Trials with their scores, (trials,) each; None for a system without scores."""

    trials: SasvTrials
    cm: Floats | None = None
    asv: Floats | None = None
    sasv: Floats | None = None

    def of(self, system: str) -> Floats | None:
        """Return the scores of one of `SYSTEMS`."""
        scores: Floats | None = getattr(self, system)
        return scores

    def by_kind(self, system: str, chosen: Flags | None = None) -> list[Floats]:
        """Return the scores of target, nontarget and spoof trials.

        Args:
            system: Name of the system, one of `SYSTEMS`; it must have scores.
            chosen: Mask of the trials to use, (trials,); None: all.

        Raises:
            AsdfError: the system has no scores, or the kinds of the trials are not known.
        """
        scores, kinds = self.of(system), self.trials.kinds
        if scores is None or kinds is None:
            raise AsdfError(f"there are no {system} scores, or the kinds of trials are not known.")
        if chosen is not None:
            scores, kinds = scores[chosen], kinds[chosen]
        return [scores[kinds == kind] for kind in (TARGET, NONTARGET, SPOOF)]


def read_sasv_keys(path: AnyPath) -> SasvTrials:
    """Read the kind of each trial, and its other columns, from a file of keys.

    Raises:
        AsdfError: a line does not fit or repeats a trial (the message names file and line), or a
            kind of trials is missing.
    """
    rows = _read_rows(path)
    trials = rows.trials()
    if trials.kinds is None:
        raise AsdfError(
            f"{path}: no column has the keys target, nontarget and spoof. Give the keys of the "
            "trials, such as ASVspoof5.eval.track_2.trial.tsv."
        )
    for number, kind in enumerate(KINDS):
        if number not in trials.kinds:
            raise AsdfError(
                f"{path} has no {kind} trials. The metrics need target, nontarget and spoof trials."
            )
    return trials


def read_sasv_scores(path: AnyPath) -> SasvScores:
    """Read scores of trials; their kinds are known only if the file contains keys.

    Raises:
        AsdfError: a line does not fit, repeats a trial or has a score that is not a finite number
            (the message names file and line), or a system has scores for only some trials.
    """
    rows = _read_rows(path)
    scores: dict[str, Floats] = {}
    for system in SYSTEMS:
        column = f"{system}-score"
        texts = rows.columns.get(column, ())
        missing = [index for index, text in enumerate(texts) if text == "-"]
        if len(missing) == len(texts):
            continue
        if missing:
            raise AsdfError(
                f"{path}, line {rows.lines[missing[0]]}: {len(missing)} of {len(texts)} trials "
                f"have no {column}: a system scores all trials or none."
            )
        values = array("d")
        for line, text in zip(rows.lines, texts, strict=True):
            values.append(parse_score(text, path, line))
            if not np.isfinite(values[-1]):
                raise AsdfError(f"{path}, line {line}: the {column} '{text}' is not finite.")
        scores[system] = np.array(values)
    if not scores:
        raise AsdfError(
            f"{path} has no scores. Its columns are {', '.join(rows.columns)}; scores are "
            f"{', '.join(_HEADER[2:])}, or 'SPK UTT SCORE' without a header."
        )
    return SasvScores(rows.trials(), **scores)


def with_keys(scores: SasvScores, keys: SasvTrials, path: AnyPath) -> SasvScores:
    """Return the scores of the trials of `keys`, in their order.

    Args:
        path: Path of the scores, for messages.

    Raises:
        AsdfError: a trial of the keys has no score, or a scored trial has no key.
    """
    positions = {name: index for index, name in enumerate(scores.trials.names())}
    wanted = keys.names()
    missing = [name for name in wanted if name not in positions]
    if missing:
        raise AsdfError(
            f"{path}: {len(missing)} of {len(wanted)} trials have no score: {_pairs(missing)}. Was "
            "the scoring interrupted, or are these the keys of another set?"
        )
    if len(positions) > len(wanted):
        others = sorted(set(positions).difference(wanted))
        raise AsdfError(
            f"{path}: {len(others)} of {len(positions)} scored trials have no key: "
            f"{_pairs(others)}. Are these the keys of another set?"
        )
    order = np.array([positions[name] for name in wanted], np.intp)
    known = map(scores.of, SYSTEMS)
    return SasvScores(keys, *(None if values is None else values[order] for values in known))


def join_systems(
    keys: SasvTrials, cm: Scores, asv: SasvScores, paths: tuple[AnyPath, AnyPath]
) -> SasvScores:
    """Return the scores of two systems in separate files, in the order of the keys.

    Args:
        cm: CM scores of the utterances, which keys name without folder and suffix.
        asv: ASV scores from a file 'SPK UTT SCORE', read as those of a single system.
        paths: Paths of the CM and of the ASV scores, for messages.

    Raises:
        AsdfError: a trial lacks one of its scores, or two recordings have its name.
    """
    indices = [cm.index_of(name) for name in keys.utterances]
    missing = sorted({keys.utterances[row] for row, index in enumerate(indices) if index is None})
    if missing:
        raise AsdfError(
            f"{paths[0]}: {len(missing)} utterances of the trials have no CM score, or those of "
            f"several recordings: {quoted_and_more(missing, _SHOWN)}. Score each once."
        )
    verified = with_keys(asv, keys, paths[1])
    asv_scores = verified.sasv if verified.asv is None else verified.asv
    cm_scores = cm.scores[np.array(indices, np.intp)]
    return SasvScores(keys, cm=cm_scores, asv=asv_scores)


def write_sasv_scores(path: AnyPath, scores: SasvScores) -> None:
    """Write scores in the format of ASVspoof 5 track 2, atomically, in the order of the trials.

    If the path ends in .zip, the scores are the member score.tsv of a zip file.

    Raises:
        AsdfError: a name cannot be written to the file.
    """
    trials = scores.trials
    torn = [name for name in (*trials.speakers, *trials.utterances) if len(name.split()) != 1]
    if torn:
        raise AsdfError(
            f"cannot write {path}: {len(torn)} names would be split by their white space: "
            f"{quoted_and_more(torn, _SHOWN)}. Rename them."
        )
    columns: list[Sequence[str]] = [trials.speakers, trials.utterances]
    for system in SYSTEMS:
        values = scores.of(system)
        columns.append(["-"] * len(trials) if values is None else list(score_texts(values)))
    lines = ["\t".join(_HEADER) + "\n"]
    lines += ["\t".join(cells) + "\n" for cells in zip(*columns, strict=True)]
    write_text_or_zip(path, lines, "score.tsv", "track 2 of ASVspoof 5")


class _Rows:
    """The cells of a file, column by column, and the line numbers."""

    def __init__(self, path: AnyPath, names: Sequence[str]) -> None:
        self.path = path
        self.columns: dict[str, list[str]] = {name: [] for name in names}
        # 4 bytes per line, of which a list of Python integers takes 36.
        self.lines = array("I")

    def add(self, line: int, cells: Sequence[str]) -> None:
        self.lines.append(line)
        for values, cell in zip(self.columns.values(), cells, strict=True):
            values.append(cell)

    def trials(self) -> SasvTrials:
        """Return the trials without duplicates, with kinds if there is a column of keys."""
        speakers = self.columns["spk"]
        utterances = list(map(bare_name, self.columns["filename"]))
        # Cells have no TAB, so that two pairs have one text only if they are equal.
        repeats = find_repeats(list(map("\t".join, zip(speakers, utterances, strict=True))))
        if repeats:
            index, earlier = repeats[0]
            raise AsdfError(
                f"{self.path}, line {self.lines[index]}: the trial of '{speakers[index]}' and "
                f"'{utterances[index]}' is already in line {self.lines[earlier]}. Write "
                "each trial once."
            )
        columns = {
            name: values
            for name, values in self.columns.items()
            if name not in _NOT_COLUMNS and not name.endswith("-score")
        }
        if "asv-label" not in self.columns:
            return SasvTrials(speakers, utterances, None, columns)
        kinds = [KEYS.get(word.lower(), -1) for word in self.columns["asv-label"]]
        if -1 in kinds:
            index = kinds.index(-1)
            key = self.columns["asv-label"][index][:40]
            raise AsdfError(
                f"{self.path}, line {self.lines[index]}: the key '{key}' is not one of target, "
                "nontarget and spoof."
            )
        if "attack" in columns:
            # Files have 'bonafide' here for targets and nontargets, which is not an attack.
            pairs = zip(columns["attack"], kinds, strict=True)
            columns["attack"] = [value if kind == SPOOF else "-" for value, kind in pairs]
        return SasvTrials(speakers, utterances, np.array(kinds, np.int8), columns)


def _read_rows(path: AnyPath) -> _Rows:
    first, lines = peek(numbered_lines(path))
    if not first:
        raise AsdfError(f"{path}: no trial in it. Was it copied whole?")
    # Between TABs, a cell may be empty or contain spaces.
    separator = "\t" if "\t" in first else None
    cells = [cell.strip() for cell in first.split(separator)]
    # The package of ASVspoof 5 and its full table of keys name the same columns differently.
    names: Sequence[str] = [_ALIASES.get(cell.lower(), cell.lower()) for cell in cells]
    if {"spk", "filename"}.issubset(names):
        next(lines)
    else:
        names = _find_layout(path, cells)
    rows = _Rows(path, names)
    tag = names.index("track_2_tag") if "track_2_tag" in names else None
    for number, line in lines:
        cells = [cell.strip() for cell in line.split(separator)]
        if len(cells) != len(names):
            columns = f"{len(names)} columns ({', '.join(names)})"
            raise AsdfError(f"{path}, line {number}: expected {columns}, found '{line[:120]}'.")
        # The package of ASVspoof 5 also skips these lines of its table of keys.
        if tag is None or cells[tag] != "dummy":
            rows.add(number, cells)
    return rows


def _find_layout(path: AnyPath, cells: Sequence[str]) -> Sequence[str]:
    """Return the names of the columns of a file without a header, from its first line."""
    for position, cell in enumerate(cells):
        layout = _LAYOUTS.get((len(cells), position))
        if cell.lower() not in KEYS or layout is None:
            continue
        # A number before the key is a score, not an attack.
        if position == 3 and _is_number(cells[2]):
            return ("spk", "filename", "sasv-score", "asv-label")
        return layout
    if len(cells) == 3 and _is_number(cells[2]):
        return ("spk", "filename", "sasv-score")
    raise AsdfError(
        f"{path}, line 1: neither a header with spk and filename, nor the columns of a known file "
        f"of trials: '{' '.join(cells)[:120]}'. Known are 'SPK UTT KEY', 'SPK UTT KEY SOURCE', "
        "'SPK UTT ATTACK KEY', 'SPK UTT GENDER ATTACK KEY', 'SPK UTT SCORE' and 'SPK UTT SCORE "
        "KEY', with a KEY target, nontarget or spoof."
    )


def _is_number(text: str) -> bool:
    try:
        read_number(text)
    except ValueError:
        return False
    return True


def _pairs(names: Sequence[tuple[str, str]]) -> str:
    return quoted_and_more([f"{speaker} {utterance}" for speaker, utterance in names], _SHOWN)
