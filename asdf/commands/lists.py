"""Write training, development and evaluation lists of a folder or table of recordings.

    python -m asdf lists DATA                              # DATA/real/*.wav, DATA/fake/*.wav
    python -m asdf lists DATA --names '{speaker}_{}'       # speakers from file names: anna_001.wav
    python -m asdf lists DATA --table meta.csv             # speakers and more from a table
    python -m asdf lists all.csv --columns path=wav,label=truth --bona-fide 0
    python -m asdf lists DATA --shares 80,10,10
    python -m asdf lists 'webdataset:shards-{000..099}.tar' --shares 100,0,0 -o lists

Folders at any depth determine the class (real, bonafide, genuine, human; fake, spoof, synthetic,
generated ...) and the list (train, dev or val, test or eval). Without the latter, the recordings
are split: all of a speaker are in the same list, and each list gets its share of both classes and
of every attack. A table has a header.

train_list.txt, dev_list.txt and eval_list.txt are written next to the recordings, with all known
columns. A recipe uses them as recipe.training_sets = ('folder:DATA:train',), or as mini-train with
paths.database_folder=DATA.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show
from asdf.commands.score_recordings import audio_files, find_recordings
from asdf.corpora import (
    SPLITS,
    choose,
    columns_by_path,
    columns_from_names,
    has_class_folders,
    is_known,
    parse_located,
    read_class_folders,
    read_protocol,
    split_trials,
)
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import read_chosen, read_named
from asdf.runs.streams import show_error
from asdf.tables.renderers import as_lines
from asdf.tables.table import Table, counts
from asdf.text import count_of, quoted_and_more
from asdf.trials.label_words import LABEL_NAMES, Columns, plain_word
from asdf.trials.lists import check_files, open_tree, read_list
from asdf.trials.table import write_trials
from asdf.trials.trial_list import UNLABELLED, TrialList, bare_name

_LISTS = ("train", "dev", "eval")
_SHOWN = 5
# Values that mean unknown.
_UNKNOWN = frozenset(("", "-"))
# Columns of a table that do not belong in a list, in lower case.
_NO_COLUMNS = frozenset(("", "utterance", *LABEL_NAMES))


@dataclass(frozen=True, kw_only=True)
class ListsOptions:
    """Options of the command."""

    data: str = argument(
        "folder or table of recordings, or shards: webdataset:PATH, shar:FOLDER, lhotse:CUTS, "
        "datasets:FOLDER",
        "FOLDER|TABLE|SHARDS",
    )
    output: Path | None = option(
        "output folder (the folder of the recordings)", "FOLDER", short="-o"
    )
    folder: Path | None = option(
        "folder that paths in a table are relative to (the folder of the table)", "FOLDER"
    )
    columns: str | None = option(
        "names of the columns in a table: path=wav,label=truth,speaker=spk", "OURS=THEIRS,.."
    )
    bona_fide: str = option(
        "folders or labels that are bona fide, if ASDF does not know their names; all others are "
        "spoof",
        "WORD,..",
        "",
    )
    names: tuple[str, ...] = option(
        "pattern that reads columns from the end of a path without suffix: '{speaker}_{}', "
        "'{speaker}/{}'; if repeated, the first pattern that matches is used",
        "PATTERN",
        (),
        repeated=True,
    )
    table: Path | None = option(
        "table with more columns for the recordings of a folder, matched by path or file name",
        "TABLE",
    )
    shares: str = option(
        "sizes of train, dev and eval in percent; 0 omits a list", "P,P,P", "70,15,15"
    )
    divide: bool = flag("split the recordings even if folders determine the lists")


COMMAND = Command("lists", __doc__, ListsOptions)


def main(arguments: list[str]) -> int:
    """Write the lists and show what is in them.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: the data cannot be read, or a list cannot be written.
    """
    args = COMMAND.read(arguments)
    shares = _read_shares(args.shares)
    trials = _read(args)
    of_names = columns_from_names(trials.ids, args.names) if args.names else {}
    of_table = _from_table(args.table, trials) if args.table else {}
    trials = replace(trials, columns={**trials.columns, **of_names, **of_table})
    lists = _divide(args, trials, shares)
    data = Path(args.data)
    is_located = parse_located(args.data) is not None
    usual = trials.folder if is_located else data.parent
    into = args.output or (data if data.is_dir() else usual)
    rows = []
    numbers: dict[str, list[int]] = defaultdict(list)
    for name, part in lists.items():
        rows.append(f"{into / name}_list.txt")
        write_trials(into / f"{name}_list.txt", _relative(part, into))
        bona_fide = int((part.labels == 1).sum())
        numbers["trials"].append(len(part))
        numbers["bona fide"].append(bona_fide)
        numbers["spoof"].append(len(part) - bona_fide)
        for column in ("speaker", "attack"):
            if column in part.columns:
                numbers[f"{column}s"].append(len({*part.columns[column]} - _UNKNOWN))
    columns = [counts(key, values) for key, values in numbers.items()]
    show("\n".join(as_lines(Table(rows, columns, "written"))))
    _warn(lists)
    return 0


def _read_shares(text: str) -> dict[str, float]:
    """Return the share of each list, omitting shares of 0.

    Raises:
        UsageError: the text is not three numbers with a sum of 100.
    """
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    # Decimal shares may not sum to exactly 100 in floating point.
    if len(numbers) != len(_LISTS) or min(numbers) < 0 or abs(sum(numbers) - 100) > 1e-6:
        raise UsageError(
            f"--shares {text}: expected percentages for train, dev and eval with a sum of 100, "
            "such as 80,10,10."
        )
    return {name: share / 100 for name, share in zip(_LISTS, numbers, strict=True) if share}


def _read(args: ListsOptions) -> TrialList:
    """Read all trials, with paths.

    Raises:
        UsageError: there is no such folder or file, or --columns is malformed.
        AsdfError: it cannot be read, or recordings of a table are missing.
    """
    names = {}
    for word in args.columns.split(",") if args.columns else ():
        ours, sign, theirs = (part.strip() for part in word.partition("="))
        if not (ours and sign and theirs):
            raise UsageError(f"--columns {args.columns}: expected path=wav,label=truth.")
        names[ours] = theirs
    columns = Columns(names, args.bona_fide)
    if parse_located(args.data) is not None:
        folder = args.folder or Path()
        trials = read_chosen(choose(args.data), folder, columns=columns, name=args.data).trials
        check_files([trials])
        if trials.count_unlabelled:
            raise UsageError(
                f"{args.data}: {trials.count_unlabelled} recordings have no label. Append "
                "?label=FIELD to name the field with the labels."
            )
        return trials
    data = Path(args.data)
    if data.is_dir():
        if args.columns:
            raise UsageError(
                f"--columns is for a table, but {args.data} is a folder. Use --names or --table."
            )
        tree = open_tree(data)
        reading = read_class_folders(tree, "", columns.bona_fide_values)
        for note in reading.notes:
            show_error(f"warning: {note}")
        return replace(reading.trials, name=args.data, folder=tree.root)
    if not data.exists():
        raise UsageError(f"there is no folder or table {args.data}. Check the path.")
    folder = args.folder or data.parent
    stated = columns if args.columns or args.bona_fide else None
    trials = read_list(data, folder, args.data, stated)
    check_files([trials])
    return trials


def _from_table(path: Path, trials: TrialList) -> dict[str, list[str]]:
    entries = columns_by_path(path)
    by_name = {bare_name(name): entry for name, entry in entries.items()}
    if len(by_name) < len(entries):
        # Names that occur in several rows are ambiguous; whole paths are not.
        by_name = {}
    named = dict.fromkeys(chain.from_iterable(entries.values()))
    # The classes are those of the folders.
    columns: dict[str, list[str]] = {
        name: [] for name in named if plain_word(name) not in _NO_COLUMNS
    }
    missing = []
    for name in trials.ids:
        row = entries.get(name) or by_name.get(bare_name(name))
        if row is None:
            missing.append(name)
            continue
        for column, values in columns.items():
            values.append(row.get(column, ""))
    if missing:
        raise AsdfError(
            f"{path} has no row for {len(missing)} of the {len(trials)} recordings: "
            f"{quoted_and_more(missing, _SHOWN)}. Rows are matched by path, or by file name if "
            "these are distinct."
        )
    return columns


def _divide(
    args: ListsOptions, trials: TrialList, shares: Mapping[str, float]
) -> dict[str, TrialList]:
    """Return the lists given by folders or a column 'split', or divided by the shares."""
    splits = trials.columns.get("split") or trials.columns.get("subset")
    if splits and not args.divide:
        named = [SPLITS.get(plain_word(split), "") for split in splits]
        if all(named):
            used = [name for name in _LISTS if name in named]
            return {name: trials.select(np.flatnonzero(np.array(named) == name)) for name in used}
        show_error(
            f"warning: {named.count('')} of {len(trials)} recordings are not in a folder for "
            "train, dev or test, so all recordings are split again."
        )
    chosen = split_trials(trials, shares)
    return {name: trials.select(indices) for name, indices in chosen.items()}


def _relative(trials: TrialList, into: Path) -> TrialList:
    """Return the trials with paths relative to the folder of their list."""
    start = into.absolute()
    folder = trials.folder.absolute()
    ids = list(trials.ids)
    if folder != start:
        ids = [Path(os.path.relpath(folder / name, start)).as_posix() for name in ids]
    # The list itself is the split.
    columns = {name: values for name, values in trials.columns.items() if name != "split"}
    return replace(trials, ids=ids, columns=columns)


def _warn(lists: Mapping[str, TrialList]) -> None:
    """Warn on stderr about weaknesses of these lists."""
    seen: Counter[str] = Counter()
    unknown = 0
    for name, part in lists.items():
        speakers = part.columns.get("speaker", ())
        seen.update({*speakers} - _UNKNOWN)
        unknown += sum(speaker in _UNKNOWN for speaker in speakers)
        for label, kind in ((1, "bona fide"), (0, "spoof")):
            if not (part.labels == label).any():
                show_error(
                    f"warning: {name}_list.txt has no {kind} recording, so it cannot be used alone "
                    "for training or for an EER."
                )
    if len(lists) == 1:
        return
    if not seen:
        show_error(
            "warning: the speakers are unknown, so the same voice may be in several lists, which "
            "makes error rates too low. --names '{speaker}_{}' or --table CSV adds the speakers."
        )
        return
    if unknown:
        show_error(
            f"warning: the speaker of {unknown} recordings is unknown; they may share speakers "
            "with recordings of other lists."
        )
    shared = sorted(name for name, count in seen.items() if count > 1)
    if shared:
        show_error(
            f"warning: folders of several lists have {count_of(len(shared), 'speaker')} in common "
            f"({quoted_and_more(shared, _SHOWN)}). --divide puts each speaker in one list."
        )


def read_recordings(
    named: str, folder: Path | None, subset: str | None = None, *, classes: bool = False
) -> TrialList:
    """Return the trials of an input, with paths.

    Args:
        named: Folder of recordings; list or table of trials; protocol of any corpus; or name of a
            corpus.
        folder: Folder that paths are relative to, or that contains the recordings of a protocol or
            corpus.
        subset: Subset of a protocol.
        classes: Whether subfolders such as real/ and fake/ determine the classes of recordings.

    Raises:
        UsageError: there is no such file or corpus, or it needs a folder.
        AsdfError: it cannot be read, or recordings are missing.
    """
    path = Path(named)
    # A corpus's name takes precedence over a file with that name.
    if is_known(named):
        if folder is None and parse_located(named) is None:
            raise UsageError(f"{named} is the name of a corpus. Give its folder with --folder.")
        return read_named(named, folder or Path())
    if path.is_dir():
        name = path.name or "recordings"
        if classes and has_class_folders(open_tree(path)):
            reading = read_class_folders(open_tree(path), "")
            return replace(reading.trials, name=name, folder=path)
        ids = [Path(each).relative_to(path).as_posix() for each in find_recordings([named]).paths]
        return TrialList(ids, np.full(len(ids), UNLABELLED, np.int8), name=name, folder=path)
    if not path.exists():
        raise UsageError(
            f"there is no list, folder or corpus {named}; `python -m asdf corpora` lists corpora."
        )
    if subset is None:
        try:
            # Only a file that is not a list is read as a protocol.
            return read_list(path, path.parent if folder is None else folder, path.stem)
        except AsdfError as error:
            if folder is None:
                raise AsdfError(
                    f"{error} If it is a protocol, give the folder of its recordings with --folder."
                ) from None
    if folder is None:
        raise UsageError(f"{path} is a protocol. Give the folder of its recordings with --folder.")
    return _locate(read_protocol(path, subset), path, folder)


def _locate(trials: TrialList, protocol: Path, folder: Path) -> TrialList:
    """Return the trials of a protocol, with the paths of their recordings as ids."""
    paths: dict[str, str] = {}
    for file in audio_files(folder):
        # For duplicates, the first path in this order is used, on every file system.
        paths.setdefault(bare_name(file.name), file.relative_to(folder).as_posix())
    names = [bare_name(utterance) for utterance in trials.ids]
    missing = [name for name in names if name not in paths]
    if missing:
        raise AsdfError(
            f"{len(missing)} of the {len(trials)} trials of {protocol} have no recording in "
            f"{folder}: {quoted_and_more(missing, _SHOWN)}. Check --folder."
        )
    ids = [paths[name] for name in names]
    return replace(trials, ids=ids, name=protocol.stem, folder=folder)
