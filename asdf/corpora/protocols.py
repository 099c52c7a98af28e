"""Label files of public corpora, recognised by their content instead of their names.

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

from pathlib import Path

import numpy as np

from asdf.errors import UsageError
from asdf.text import AnyPath
from asdf.trials.label_files import parse_columns, parse_protocol
from asdf.trials.lists import Tree
from asdf.trials.table import is_trials_file, parse_table
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import TrialList


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
        AsdfError: see `read_protocol`.
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
