"""Corpora with label files: one reader for all of them; a row says where the files lie.

Invariant: every line is a trial, and a word that means neither class is an error with its line,
never a spoof. Recordings are matched with lines by file name, with any suffix, unless the file has
their paths.

Label files are recognised by their content instead of their names.

Invariant: for any file, a trial has a label 1 (bona fide) or 0 (spoof), columns with the names
below, and `-` as attack and vocoder if and only if it is bona fide, although some files contain
`bonafide` or `a00` there. Utterances have the names in the file.

    ASVspoof 2019      SPEAKER UTT - ATTACK KEY
    ASVspoof 2021 LA   SPEAKER UTT CODEC TRANSMISSION ATTACK KEY TRIM SUBSET
    ASVspoof 2021 DF   SPEAKER UTT COMPRESSION SOURCE ATTACK KEY TRIM SUBSET VOCODER TASK TEAM
                       GENDER LANGUAGE
    ASVspoof 2021 PA   SPEAKER UTT ASV_ROOM ASV_MIC TO_ASV ATTACKER_ROOM ATTACKER_MIC REPLAY_DEVICE
                       TO_TALKER KEY TRIM SUBSET
    ASVspoof 5         SPEAKER UTT GENDER CODEC CODEC_Q CODEC_SEED ATTACK_TAG ATTACK KEY -
    In-the-Wild        file,speaker,label
    SpoofCeleb         file,speaker,attack
    AT-ADD             name,label,... ; label is real or fake, track 2 has the column type
    own tables         path,label or file_name,label, ... ; label may be real, genuine or fake too
    table of trials    utterance label ..., see `asdf.trials.table`
    two columns        UTT KEY; KEY is bonafide, bona-fide or spoof, or as in ASDF's lists 1 or 0
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from asdf.arrays import Flags
from asdf.corpora.known_corpus import Reading, first_there, is_there, join_name, with_files
from asdf.errors import AsdfError, UsageError
from asdf.text import AnyPath
from asdf.trials.label_files import cells_of_trial, named_rows, parse_columns, parse_protocol
from asdf.trials.label_words import label_of
from asdf.trials.lists import Tree
from asdf.trials.table import TrialCollector, is_trials_file, parse_table
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import UNLABELLED, TrialList, values_at

ALL = "all"
"""Subset of all trials of a label file that holds several subsets."""


@dataclass(frozen=True)
class SubsetFiles:
    """Paths of a subset, the most likely first.

    Attributes:
        labels: Possible names of its label file.
        audio: Possible folders of its recordings.
        parts: Folders with a part of the recordings each, besides or instead of `audio`.
    """

    labels: Sequence[str]
    audio: Sequence[str]
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class Lists:
    """The label files of a corpus, and their recordings.

    Attributes:
        files: Files of each subset, below one of the `homes`.
        advice: Advice for a user without a label file.
        columns: Columns, including 'utterance' and 'key', as in `named_rows`; None: the file is of
            a kind that `read_protocol` knows.
        keys: Meanings of the key's words, 1 bona fide, 0 spoof, `UNLABELLED`: the line is left out;
            other words are those of `label_of`.
        of_key: Values of further columns for each word of the key; another word for a class that
            needs them is refused.
        attacks: Names used here for the values of the column 'attack'.
        homes: Possible folders of files and recordings, the most likely first, each with its '/'.
        suffix: Suffix of the recordings, if the file omits it.
        has_paths: Whether the file has the paths of recordings.
        identify: Function that returns the part of a path that identifies a line; None: the file
            name.
        subset_column: Column with the subset of a line, if a file holds several subsets.
        mark: Column that tells the file from another one of its name.
        notes: Sentence for the user about a subset.
    """

    files: Mapping[str, SubsetFiles]
    advice: str
    columns: Sequence[str] | Mapping[str, str] | None = None
    keys: Mapping[str, int] = field(default_factory=dict)
    of_key: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    attacks: Mapping[str, str] = field(default_factory=dict)
    homes: Sequence[str] = ("",)
    suffix: str = ""
    has_paths: bool = False
    identify: Callable[[str], str] | None = None
    subset_column: str = ""
    mark: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    def read(self, tree: Tree, subset: str) -> Reading:
        """Read a subset of a corpus.

        Raises:
            AsdfError: its label file does not exist, or a line is malformed.
        """
        files = self.files[subset]
        home_of = {home + name: home for home in self.homes for name in files.labels}
        for name in filter(partial(is_there, tree), home_of):
            trials = self._read_lines(tree, name, subset)
            if not self.mark or self.mark in trials.columns:
                break
        else:
            raise AsdfError(f"{tree.root}: there is no {next(iter(home_of))}. {self.advice}")
        lines = trials.ids
        # Recordings and labels may come in archives of their own, unpacked into different homes.
        homes = dict.fromkeys((home_of[name], *self.homes))
        # Without a '/' at the end if the recordings lie in the home itself.
        folders = [(home + folder).rstrip("/") for home in homes for folder in files.audio]
        whole = first_there(tree, folders)
        # Looking into an archive reads all of its names, so beside a folder only folders count.
        has_part = partial(is_there, tree) if whole is None else tree.exists
        existing = [*([] if whole is None else [whole]), *filter(has_part, files.parts)]
        # Without any, recordings are reported as missing at their usual paths.
        audio = tuple(existing or folders[:1])
        if self.has_paths:
            ids = [join_name(audio[0], utterance.lstrip("/")) for utterance in lines]
            trials = replace(trials, ids=ids)
            audio = audio if audio[0] else tuple(sorted(set(map(posixpath.dirname, ids))))
        else:
            trials = with_files(trials, tree, audio, self.suffix, self.identify)
        notes = [self.notes[subset]] if subset in self.notes else []
        is_in = self._is_in(trials, subset)
        if not is_in.any():
            subsets = sorted(set(trials.columns[self.subset_column]))
            raise AsdfError(
                f"{tree.path(name)}: no trial of a subset {subset!r}. Its subsets are "
                f"{', '.join(subsets)}."
            )
        is_labelled = trials.labels != UNLABELLED
        if is_in.all() and is_labelled.all():
            return Reading(trials, audio, notes=notes)
        chosen = trials.select(np.flatnonzero(is_in & is_labelled))
        if left_out := values_at(lines, np.flatnonzero(is_in & ~is_labelled)):
            notes.append(
                f"lines of neither class, left out: {len(left_out)}, such as {left_out[0]}"
            )
        # They are on the disk, and would be reported there as unnamed.
        others = frozenset(trials.ids) - frozenset(chosen.ids)
        return Reading(chosen, audio, others=others, notes=notes)

    def _is_in(self, trials: TrialList, subset: str) -> Flags:
        """Return which trials are of a subset, (trials,)."""
        if not self.subset_column or subset == ALL:
            return np.ones(len(trials), bool)
        return np.array([each.lower() == subset for each in trials.columns[self.subset_column]])

    def _read_lines(self, tree: Tree, name: str, subset: str) -> TrialList:
        if self.columns is None:
            return read_from(tree, name)
        path = tree.path(name)
        listed = self.columns.values() if isinstance(self.columns, Mapping) else self.columns
        further = next(iter(self.of_key.values()), {})
        columns = [name for name in dict.fromkeys(listed) if name not in ("", "utterance", "key")]
        collector = TrialCollector(path, [*columns, *further])
        described = {self.keys[word] for word in self.of_key}
        for number, row in named_rows(tree.lines(name), path, self.columns):
            word = row["key"].lower()
            label = self.keys.get(word, label_of(word))
            if not row["utterance"]:
                raise AsdfError(f"{path}, line {number}: it names no recording.")
            if label in described and word not in self.of_key:
                label = None
            if label is None and self.subset_column:
                is_elsewhere = subset not in (ALL, row[self.subset_column].lower())
                label = UNLABELLED if is_elsewhere else None
            if label is None:
                raise AsdfError(
                    f"{path}, line {number}: {row['key']!r} means neither bona fide nor spoof. Is "
                    "it the corpus's own label file?"
                )
            values = {**row, **self.of_key.get(word, {})}
            values["attack"] = self.attacks.get(values.get("attack", ""), values.get("attack", ""))
            # Some files have 'bonafide' or 'a00' as the attack of bona fide speech.
            cells = [values.get(name, "") for name in collector.names]
            cells = cells_of_trial(label, collector.names, cells)
            collector.add(number, row["utterance"], label, cells)
        return collector.trials()


def read_protocol(path: AnyPath, subset: str | None = None) -> TrialList:
    """Read any supported label file, plain or gzipped.

    Args:
        subset: Value of the file's column 'subset' (ASVspoof 2021) whose trials are returned; None:
            all trials.

    Raises:
        AsdfError: a line is malformed or an utterance is repeated (the message names file and
            line), or the file has no labels.
        UsageError: there is no trial of that subset.
    """
    # Only line ends are removed: in a table, a TAB at the end of a line is an empty column.
    first, lines = peek(numbered_lines(path, "\r\n"))
    if is_trials_file(first):
        trials = parse_table(lines, Path(path))
    else:
        trials = parse_protocol(lines, Path(path))
    if subset is None:
        return trials
    return choose_subset(trials, subset, path)


def columns_by_path(path: AnyPath) -> dict[str, dict[str, str]]:
    """Return the columns of a table with any header for each recording, by its path.

    Raises:
        AsdfError: its column of paths cannot be identified, or a row is malformed.
    """
    return parse_columns(numbered_lines(path, "\r\n"), Path(path))


def read_from(tree: Tree, name: str) -> TrialList:
    """Read the label file `name` of a corpus.

    Raises:
        AsdfError: as in `read_protocol`.
    """
    return parse_protocol(tree.lines(name), tree.path(name))


def choose_subset(trials: TrialList, subset: str, path: AnyPath) -> TrialList:
    """Return the trials of one subset.

    Raises:
        UsageError: the subset does not exist; the message lists the existing ones.
    """
    values = trials.columns.get("subset", [])
    chosen = [index for index, value in enumerate(values) if value == subset]
    if not chosen:
        hint = "It has no column of subsets."
        if values:
            hint = f"Its subsets are {', '.join(sorted(set(values)))}."
        raise UsageError(f"{path}: no trial of a subset {subset!r}. {hint}")
    return trials.select(np.array(chosen))
