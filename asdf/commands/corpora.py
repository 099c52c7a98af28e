"""The corpora that are known by name, and whether one of them is whole.

    python -m asdf corpora                                     the names, and what each corpus needs
    python -m asdf corpora asvspoof21-la                       all that is known of one
    python -m asdf corpora asvspoof21-la:eval FOLDER           check it: trials, attacks, speakers, missing files
    python -m asdf corpora asvspoof5 FOLDER                    check every subset
    python -m asdf corpora mlaad:de FOLDER --list de.txt       write its list, 'path label' a line
    python -m asdf corpora my_list.txt FOLDER                  check a list of your own

FOLDER is the corpus's folder, or one that holds it, such as paths.database_folder. Paths in a list that is written are
relative to the folder that is shown. Names are those that a recipe knows in recipe.training_sets and its like.

Exit status: 0 all is there, 1 recordings are missing or there are not as many trials as were published, 2 a mistake in
the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from asdf.commands.outputs import show, text_stream, write_outputs
from asdf.corpora import (
    ALIASES,
    KNOWN,
    Chosen,
    KnownCorpus,
    Reading,
    choose,
    compare_with_disk,
    counts,
    differences,
    durations_s,
    find_tree,
    read_known,
)
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import atomic_write
from asdf.text import lines_and_more
from asdf.trials.lists import read_list
from asdf.trials.table import write_trials
from asdf.trials.trees import Tree, open_tree
from asdf.trials.trial_list import TrialList

_SHOWN = 5  # names of each kind of trouble
_VALUES = 60  # a column of more values is told by how many there are


def main(arguments: list[str]) -> int:
    """Tell of the corpora, or check one; 1 if something is missing, else 0.

    Raises:
        UsageError: a mistake in the name or the options.
        AsdfError: the corpus is not in the folder, is malformed, or an output cannot be written.
    """
    given = _parser().parse_args(arguments)
    outputs = [option for option in ("list", "trials") if getattr(given, option)]
    if given.folder is None:
        if outputs or given.durations:
            raise UsageError("say where the corpus is: python -m asdf corpora NAME FOLDER ...")
        show(_overview() if given.name is None else _details(given.name))
        return 0
    screen = text_stream([given.list, given.trials])
    own_list = Path(given.name) if _is_list(given.name) else None
    chosen = [] if own_list else _subsets(given.name)
    if len(chosen) > 1 and outputs:
        names = ", ".join(one.name for one in chosen)
        raise UsageError(f"--{outputs[0]} is for one subset: name one of {names}.")
    parts: list[Chosen | Path] = [own_list] if own_list else [*chosen]
    return max([_check(part, given, screen, alone=len(parts) == 1) for part in parts])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m asdf corpora",
        usage="python -m asdf corpora [NAME [FOLDER]] [options]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="a corpus, or corpus:subset, or a list file"
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="where it is")
    parser.add_argument(
        "--durations",
        action="store_true",
        help="hours of speech, from the headers of all recordings",
    )
    parser.add_argument(
        "--list",
        type=Path,
        metavar="OUT",
        help="write its list in ASDF's format, 'path label' per line; - is standard output",
    )
    parser.add_argument(
        "--trials", type=Path, metavar="OUT", help="write its trials with all columns (.tsv)"
    )
    return parser


def _is_list(name: str) -> bool:
    return name.split(":", 1)[0] not in {*KNOWN, *ALIASES} and Path(name).is_file()


def _subsets(name: str) -> list[Chosen]:
    """What a name stands for here; that of a corpus alone, all of it."""
    corpus = KNOWN.get(name)
    if corpus is None or not corpus.subsets:
        return [choose(name)]
    whole = "all" in corpus.subsets
    return [Chosen(name, subset) for subset in (("all",) if whole else corpus.subsets)]


def _overview() -> str:
    width = max(map(len, KNOWN)) + 2
    blocks = []
    for key, corpus in KNOWN.items():
        lines = [corpus.title, _sizes(corpus), f"needs {corpus.needs}"]
        blocks.append(
            "\n".join(
                f"{key if not number else '':<{width}}{line}" for number, line in enumerate(lines)
            )
        )
    width = max(map(len, ALIASES)) + 2
    short = [f"{alias:<{width}}{name}" for alias, name in ALIASES.items()]
    introduction = "A list is corpus:subset where there are subsets. Other names:"
    return "\n".join([*blocks, "", introduction, *short])


def _sizes(corpus: KnownCorpus) -> str:
    told = []
    for subset in corpus.subsets or ("",):
        size = corpus.published.get(subset)
        words = [subset] if subset else ["everything" * bool(corpus.subset_of)]
        if size:
            bona_fide = f" ({size.bona_fide:,} bona fide)" if size.bona_fide is not None else ""
            words.append(f"{size.trials:,} trials{bona_fide}")
        told.append(" ".join(filter(None, words)))
    told += [f"or any {corpus.subset_of} of it"] if corpus.subset_of else []
    return ", ".join(told)


def _details(name: str) -> str:
    # A mistake in the subset is told here too.
    corpus = _subsets(name)[0].corpus
    rows = {
        "title": corpus.title,
        "subsets": _sizes(corpus),
        "published": f"numbers are of subset {corpus.usual}" if corpus.usual else "",
        "counts from": corpus.source,
        "needs": corpus.needs,
        "looked for": "in paths.database_folder: "
        + ", ".join(folder or "itself" for folder in corpus.folders),
        "homepage": corpus.homepage,
        "licence": corpus.licence,
    }
    return "\n".join(f"{what:<13}{told}" for what, told in rows.items() if told)


def _check(part: Chosen | Path, given: argparse.Namespace, screen: TextIO, alone: bool) -> int:
    name = part.name if isinstance(part, Chosen) else str(part)
    show(f"{name}: reading ...", sys.stderr)
    try:
        utterances, reading, tree = _read(part, given.folder)
        disk = compare_with_disk(reading, tree)
    except AsdfError as error:
        if alone:
            raise
        show(f"{name}\n  NOT THERE    {error}\n", screen)
        return 1
    write_outputs(
        [
            (given.list, partial(_write_list, utterances)),
            (given.trials, partial(write_trials, trials=utterances)),
        ]
    )
    lines = [name, f"  folder       {tree.root}", f"  trials       {_kinds(utterances.labels)}"]
    lines += [line for column in utterances.columns for line in _values(reading, column)]
    if given.durations:
        lines += _durations(utterances, set(disk.missing))
    apart = differences(part, utterances.labels) if isinstance(part, Chosen) else []
    lines += [f"  DIFFERENCE   {told}" for told in apart]
    lines += _names("MISSING", disk.missing, "named and not on disk")
    lines += _names("not named", disk.unnamed, "on disk and not named")
    lines += [f"  note         {note}" for note in reading.notes]
    if not apart and not disk.missing:
        published = isinstance(part, Chosen) and part.subset in part.corpus.published
        lines.append("  all there" + (", as many trials as published" if published else ""))
    show("\n".join(lines) + "\n", screen)
    return int(bool(apart or disk.missing))


def _write_list(utterances: TrialList, path: Path) -> None:
    with atomic_write(path) as file:
        file.writelines(
            f"{utterance} {label}\n"
            for utterance, label in zip(utterances.ids, utterances.labels, strict=True)
        )


def _read(part: Chosen | Path, folder: Path) -> tuple[TrialList, Reading, Tree]:
    if isinstance(part, Chosen):
        tree = find_tree(part.corpus, folder, itself=True)
        return *read_known(part, tree), tree
    utterances = read_list(part, folder, part.stem)
    folders = sorted({utterance.rpartition("/")[0] for utterance in utterances.ids})
    return utterances, Reading(utterances, folders), open_tree(folder)


def _kinds(labels: np.ndarray) -> str:
    bona_fide = int((labels == 1).sum())
    return f"{len(labels):,}: {bona_fide:,} bona fide, {len(labels) - bona_fide:,} spoof"


def _values(reading: Reading, column: str) -> list[str]:
    """A column's values with their numbers; of speakers and of columns with many values only how many there are."""
    found = counts(reading.trials, column)
    found.pop("", None)
    if column == "speaker" or len(found) > _VALUES:
        return [f"  {column:<12} {len(found):,} of them"]
    shown = []
    for value, (bona_fide, spoof) in found.items():
        both = (
            f"{bona_fide + spoof:,} ({bona_fide:,} bona fide)"
            if bona_fide and spoof
            else f"{bona_fide + spoof:,}"
        )
        shown.append(f"{value} {both}")
    return [f"  {column:<12} {', '.join(shown)}"]


def _durations(utterances: TrialList, missing: set[str]) -> list[str]:
    places = [place for place, utterance in enumerate(utterances.ids) if utterance not in missing]
    seconds, wrong = durations_s([utterances.path(place) for place in places])
    labels = utterances.labels[places]
    lines = []
    for kind, label in (("bona fide", 1), ("spoof", 0)):
        those = seconds[(labels == label) & np.isfinite(seconds)]
        if those.size:
            lines.append(
                f"  durations    {kind}: {those.sum() / 3600:.2f} h, {those.min():.2f} s to {those.max():.2f} s, "
                f"median {np.median(those):.2f} s"
            )
    return lines + _names("unreadable", wrong, "cannot be read")


def _names(what: str, names: Sequence[str], told: str) -> list[str]:
    if not names:
        return []
    shown = lines_and_more(names, _SHOWN, indent=" " * 15)
    return [f"  {what:<12} {len(names):,} {told}:{shown}"]
