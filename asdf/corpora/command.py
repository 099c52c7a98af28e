"""List the supported corpora, or check whether a corpus is complete.

    python -m asdf corpora                                # names and required files
    python -m asdf corpora asvspoof21-la                  # details of one corpus
    python -m asdf corpora asvspoof21-la:eval FOLDER      # check it: trials, attacks, missing files
    python -m asdf corpora mlaad:de FOLDER --list de.txt  # write its list, 'path label' per line
    python -m asdf corpora my_list.txt FOLDER             # check a list of your own
    python -m asdf corpora decro FOLDER --download        # download it, if it is public, and check

FOLDER is the folder of the corpus, or one that contains it, such as paths.database_folder. The same
names are used in recipe.training_sets and the other sets of a config.

Exit status: 0 complete, 1 recordings are missing or the number of trials is not the published one,
2 error in the command line.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from asdf.audio.reading import audio_length
from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show, text_stream, write_outputs
from asdf.corpora import (
    ALIASES,
    KNOWN,
    Chosen,
    KnownCorpus,
    Reading,
    choose,
    describe_origin,
    differences,
    download_record,
    files_in,
    hub_of,
    is_known,
    is_recording,
    look_up_record,
    needs_request,
    parse_located,
    records_of,
    sharing,
    unpack_archive,
)
from asdf.data.threads import threads
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.hub import download_into, parse_dataset
from asdf.places import split_part
from asdf.recipe.declared_corpora import read_chosen
from asdf.runs.files import atomic_write
from asdf.runs.log import track
from asdf.runs.streams import show_error
from asdf.text import aligned, lines_and_more
from asdf.trials.lists import Tree, open_tree, read_list
from asdf.trials.table import write_trials
from asdf.trials.trial_list import TrialList

_GIGABYTE = 1_000_000_000
# Reading headers is mostly waiting for the file system.
_THREADS = 8


def compare_with_disk(reading: Reading, tree: Tree) -> tuple[list[str], list[str]]:
    """Compare the trials of a reading with the files in its folders.

    Returns:
        Recordings that are listed and do not exist, and those that exist and are not listed, as
        sorted names in the tree.
    """
    existing: set[str] = set()
    for folder in reading.audio:
        existing.update(files_in(tree, folder))
    # A trial may be a part of a recording, such as `call.flac#t=1,2`; the disk has the whole one.
    named = {split_part(name)[0] for name in reading.trials.ids}
    # Lists may contain recordings outside of the tree.
    existing.update(name for name in named if name.startswith("/") and Path(name).is_file())
    # Other subsets may be in the same folders, and their recordings are not superfluous.
    unnamed = existing - named - reading.others
    return sorted(named - existing), sorted(filter(is_recording, unnamed))


def durations_s(paths: Sequence[Path]) -> tuple[np.ndarray, list[str]]:
    """Read the lengths of recordings from their headers alone.

    Returns:
        Length of each recording in seconds, NaN if its header cannot be read, and messages on
        those.
    """

    def length(path: Path) -> int | str:
        try:
            return audio_length(path)
        except (AsdfError, OSError) as error:
            # A broken recording is a line in the report on the corpus, and does not end it.
            return str(error)

    seconds = np.full(len(paths), np.nan)
    problems = []
    with threads(_THREADS) as pool:
        lengths = pool.map(length, paths)
        tracked = track(lengths, len(paths), "reading headers", unit="recordings")
        for index, samples in enumerate(tracked):
            if isinstance(samples, int):
                seconds[index] = samples / SAMPLE_RATE
            else:
                problems.append(samples)
    return seconds, problems


def download_corpus(name: str, folder: Path | None) -> None:
    """Download a public corpus into its folder below `folder`, after showing its licence.

    Raises:
        UsageError: it has no folder, or is not public.
        AsdfError: it cannot be downloaded or unpacked.
    """
    if folder is None:
        raise UsageError(
            f"the folder to download into is missing. Use: python -m asdf corpora {name} FOLDER "
            "--download"
        )
    corpus = KNOWN.get(name) or choose(name).corpus
    records = records_of(corpus)
    dataset = hub_of(corpus)
    if needs_request(corpus) or not (records or dataset):
        why = "its authors provide it on request"
        if not needs_request(corpus):
            why = "no public files are known at its address"
        raise UsageError(
            f"{corpus.name} is not downloaded: {why}. Get it from {corpus.homepage} (licence: "
            f"{corpus.licence}), so that FOLDER has {corpus.needs}; then check it: python -m asdf "
            f"corpora {corpus.name} FOLDER"
        )
    # A corpus in the database folder itself ('') is not unpacked among other corpora.
    target = folder / (next(filter(None, corpus.folders), "") or corpus.name)
    for number in records:
        record = look_up_record(number)
        size = sum(file.size for file in record.files) / _GIGABYTE
        licence = record.licence or corpus.licence
        show_error(
            f"{corpus.title}: {record.address}, {len(record.files)} files, {size:,.2f} GB, "
            f"licence {licence}; into {target}"
        )
        for archive in download_record(record, target):
            show_error(f"{archive} is unpacked and can be removed")
    if dataset:
        show_error(f"{corpus.title}: hub:{dataset}, licence {corpus.licence}; into {target}")
        for path in download_into(parse_dataset(dataset)[0], target):
            # In the hub's cache, the file behind the link is named by its digest.
            unpack_archive(path, path.resolve().name)


# Maximum number of names shown for each kind of problem.
_SHOWN = 5
# If a column has more values, only their number is shown.
_MAX_VALUES = 60


@dataclass(frozen=True, kw_only=True)
class CorporaOptions:
    """Options of the command."""

    name: str | None = argument("corpus, corpus:subset, or list file", "NAME", default=None)
    folder: Path | None = argument("location of the corpus", "FOLDER", default=None)
    download: bool = flag(
        "first download the corpus into FOLDER, from Zenodo or the hub, if it is public; existing "
        "files are not downloaded again"
    )
    durations: bool = flag("show the hours of speech, from the headers of all recordings")
    list: Path | None = option(
        "write a list in ASDF's format, 'path label' per line; - is standard output", "OUT"
    )
    trials: Path | None = option("write the trials with all columns (.tsv)", "OUT")


COMMAND = Command("corpora", __doc__, CorporaOptions, {".txt": "list", ".tsv": "trials"})


def main(arguments: list[str]) -> int:
    """Show the corpora, or check one; return 1 if something is missing, else 0.

    Raises:
        UsageError: a mistake in the name or the options.
        AsdfError: the corpus is not in the folder or is malformed, or an output cannot be written.
    """
    args = COMMAND.read(arguments)
    outputs = [option for option in ("list", "trials") if getattr(args, option)]
    is_located = args.name is not None and parse_located(args.name) is not None
    if args.folder is None and not is_located:
        if outputs or args.durations or args.download:
            raise UsageError(
                "the location of the corpus is missing. Use: python -m asdf corpora NAME FOLDER ..."
            )
        show(_overview() if args.name is None else _details(args.name))
        return 0
    assert args.name is not None  # it stands before the folder
    if args.download:
        download_corpus(args.name, args.folder)
    # If an output goes to standard output, the text for people goes to standard error.
    screen = text_stream([args.list, args.trials])
    list_file = None
    # A corpus's name takes precedence over a file with that name; './asvspoof5' means the file.
    if not is_known(args.name) and Path(args.name).is_file():
        list_file = Path(args.name)
    chosen = [] if list_file else _subsets(args.name)
    if len(chosen) > 1 and outputs:
        names = ", ".join(subset.name for subset in chosen)
        raise UsageError(f"--{outputs[0]} writes a single subset. Give one of {names}.")
    parts: list[Chosen | Path] = [list_file] if list_file else [*chosen]
    statuses = [_check(part, args, screen, alone=len(parts) == 1) for part in parts]
    return max(statuses)


def _subsets(name: str) -> list[Chosen]:
    """Return the subsets of a name; the name of a corpus alone means all of it."""
    corpus = KNOWN.get(name)
    if corpus is None or not corpus.subsets:
        return [choose(name)]
    # 'all' contains the other subsets: checking each of them would read every trial twice.
    if "all" in corpus.subsets:
        return [Chosen(name, "all")]
    return [Chosen(name, subset) for subset in corpus.subsets]


def _overview() -> str:
    rows = []
    for key, corpus in KNOWN.items():
        sizes = _sizes(corpus)
        rows += [(key, corpus.title), *([("", sizes)] if sizes else [])]
        rows.append(("", f"needs {corpus.needs}"))
    introduction = "Subsets are given as corpus:subset. Other names:"
    return "\n".join([*aligned(rows), "", introduction, *aligned(list(ALIASES.items()))])


def _sizes(corpus: KnownCorpus) -> str:
    """Return the subsets with their published numbers of trials, in words."""
    parts = []
    for subset in corpus.subsets or ("",):
        words = []
        if subset:
            words.append(subset)
        elif corpus.subset_of:
            words.append("everything")
        if size := corpus.published.get(subset):
            words.append(f"{size.trials:,} trials")
            if size.bona_fide is not None:
                words.append(f"({size.bona_fide:,} bona fide)")
        parts.append(" ".join(words))
    if corpus.subset_of:
        parts.append(f"or any {corpus.subset_of} of it")
    return ", ".join(parts)


def _details(name: str) -> str:
    # This also refuses an unknown subset.
    chosen = _subsets(name)[0]
    corpus = chosen.corpus
    key = chosen.key
    folders = ", ".join(folder or "itself" for folder in corpus.folders)
    rows = {
        "title": corpus.title,
        "subsets": _sizes(corpus),
        "published": f"numbers are of subset {corpus.usual}" if corpus.usual else "",
        "counts from": corpus.source,
        "needs": corpus.needs,
        "speech of": describe_origin(key),
        "shared with": ", ".join(sharing(key)),
        "looked for": f"in paths.database_folder: {folders}" if folders else "",
        "homepage": corpus.homepage,
        "licence": corpus.licence,
    }
    return "\n".join(f"{heading:<13}{text}" for heading, text in rows.items() if text)


def _check(part: Chosen | Path, args: CorporaOptions, screen: TextIO, alone: bool) -> int:
    name = part.name if isinstance(part, Chosen) else str(part)
    # Shown before reading, which takes minutes for a large corpus.
    show(f"{name}: reading ...", sys.stderr)
    try:
        folder = args.folder or Path()
        if isinstance(part, Chosen):
            utterances, reading, tree = read_chosen(part, folder, itself=True)
        else:
            utterances, tree = read_list(part, folder, part.stem), open_tree(folder)
            folders = sorted({utterance.rpartition("/")[0] for utterance in utterances.ids})
            reading = Reading(utterances, folders)
        missing, unnamed = compare_with_disk(reading, tree)
    except AsdfError as error:
        # One subset that was not downloaded does not hide the state of the others.
        if alone:
            raise
        show(f"{name}\n  NOT THERE    {error}\n", screen)
        return 1

    def write_list(path: Path) -> None:
        rows = zip(utterances.ids, utterances.labels, strict=True)
        with atomic_write(path) as file:
            file.writelines(f"{utterance} {label}\n" for utterance, label in rows)

    to_table = partial(write_trials, trials=utterances)
    write_outputs([(args.list, write_list), (args.trials, to_table)])
    total, bona_fide = len(utterances), int((utterances.labels == 1).sum())
    classes = f"{total:,}: {bona_fide:,} bona fide, {total - bona_fide:,} spoof"
    lines = [name, f"  folder       {tree.root}", f"  trials       {classes}"]
    for column in utterances.columns:
        lines.append(f"  {column:<12} {_describe_column(reading, column)}")
    if args.durations:
        lines += _duration_lines(utterances, set(missing))
    deviations = differences(part, utterances.labels) if isinstance(part, Chosen) else []
    lines += [f"  DIFFERENCE   {deviation}" for deviation in deviations]
    lines += _name_lines("MISSING", missing, "named and not on disk")
    lines += _name_lines("not named", unnamed, "on disk and not named")
    lines += [f"  note         {note}" for note in reading.notes]
    # Recordings that no list names do not make a corpus incomplete.
    is_complete = not deviations and not missing
    if is_complete:
        is_published = isinstance(part, Chosen) and part.subset in part.corpus.published
        lines.append("  all there" + (", as many trials as published" if is_published else ""))
    show("\n".join(lines) + "\n", screen)
    return 0 if is_complete else 1


def _describe_column(reading: Reading, column: str) -> str:
    """Return a column's values with their numbers of trials; for speakers only their number."""
    values = reading.trials.columns[column]
    numbers = Counter(zip(values, reading.trials.labels.tolist(), strict=True))
    # The empty value means unknown.
    known = sorted({*values} - {""})
    if column == "speaker" or len(known) > _MAX_VALUES:
        return f"{len(known):,} of them"
    shown = []
    for value in known:
        bona_fide, spoof = numbers[value, 1], numbers[value, 0]
        of_both = f" ({bona_fide:,} bona fide)" if bona_fide and spoof else ""
        shown.append(f"{value} {bona_fide + spoof:,}{of_both}")
    return ", ".join(shown)


def _duration_lines(utterances: TrialList, missing: set[str]) -> list[str]:
    indices = [index for index, name in enumerate(utterances.ids) if name not in missing]
    seconds, unreadable = durations_s([utterances.path(index) for index in indices])
    labels = utterances.labels[indices]
    lines = []
    for class_name, label in (("bona fide", 1), ("spoof", 0)):
        of_class = seconds[(labels == label) & np.isfinite(seconds)]
        if of_class.size:
            lines.append(
                f"  durations    {class_name}: {of_class.sum() / 3600:.2f} h, "
                f"{of_class.min():.2f} s to {of_class.max():.2f} s, "
                f"median {np.median(of_class):.2f} s"
            )
    return lines + _name_lines("unreadable", unreadable, "cannot be read")


def _name_lines(heading: str, names: Sequence[str], meaning: str) -> list[str]:
    """Return the number of names and the first of them; [] without names."""
    if not names:
        return []
    shown = lines_and_more(names, _SHOWN, indent=" " * 15)
    return [f"  {heading:<12} {len(names):,} {meaning}:{shown}"]
