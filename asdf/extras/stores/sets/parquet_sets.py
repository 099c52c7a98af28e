"""Parquet data sets as distributed on a hub: shards with a row per recording.

Invariant: labels come from words (bonafide, spoof, real, fake ...), from the data set's class
names, or from the value that the user states as bona fide, and are never guessed: in the sets of
the Speech Arena, bona fide is 0, in others 1.

The layout of the Arena's sets ({path, audio, label, notes}; notes is JSON with utterance_id; label
is a class of [bonafide, spoof]) follows its documentation and its checker
(lab260ru/speech_spoof_bench: docs/developing/new-dataset.md, loader.py); names of shards and splits
follow the hub's convention.

A data set of the hub with several configurations or splits needs a name that selects one, and only
the selected shards are downloaded.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asdf.corpora import KnownCorpus, Reading, first_there, is_there, join_name, with_files
from asdf.errors import AsdfError, UsageError
from asdf.extras.stores.archives import find_folder
from asdf.extras.stores.parquet import NAMES, ParquetArchive, ParquetTable
from asdf.extras.stores.parquet import PARQUET as SUFFIX
from asdf.facts import Published
from asdf.hub import HubName, explained, look_up, parse_dataset
from asdf.text import did_you_mean, quoted_and_more, shorten
from asdf.trials.label_files import cells_of_trial
from asdf.trials.label_words import LABEL_NAMES, Columns, are_labels, meaning_of, plain_word
from asdf.trials.lists import Tree, open_tree
from asdf.trials.table import TrialCollector
from asdf.trials.trial_list import TrialList

_LABELS = ("label", "labels", "key", "target", "class")
# The classes of the Arena's sets, 0 and 1.
_CLASSES = ("bonafide", "spoof")
# Names of entries in notes, and the names used here.
_ENTRIES = {"speaker_id": "speaker", "attack_id": "attack"}
_NUMBERED = re.compile(r"(.+?)-\d+-of-\d+(-[0-9a-f]+)?")
_SHOWN = 8
CONVERTED = "refs/convert/parquet"
"""Revision with the hub's own conversion of public data sets to parquet."""

_DECLARE = (
    "Corpus(reader='parquet', folder=..., columns={'label': '...'}, bona_fide='...'), or with "
    "reader='hub:ORG/NAME:SPLIT' instead of the folder"
)

T = TypeVar("T")


def read_parquet(
    tree: Tree, split: str, columns: Columns | None = None, under: str = ""
) -> Reading:
    """Read the shards of a data set.

    Args:
        split: Split to read: that of `data/test-00000-of-00002.parquet` and `test/0000.parquet` is
            'test'; '' is all of them.
        under: Folder of the data set in the tree.

    Raises:
        AsdfError: there is no shard, no such split, no column of labels, or a label has no known
            meaning.
        UsageError: pyarrow is not installed, or a column in `columns` does not exist.
    """
    shards = defaultdict(list)
    for name in tree.files(under):
        if name.lower().endswith(SUFFIX):
            shards[locate_shard(name).split].append(name)
    if not shards:
        raise AsdfError(
            f"{tree.path(under)}: no parquet files found. Is it the folder of the data set, laid "
            "out as on the hub?"
        )
    if split and split not in shards:
        raise AsdfError(
            f"{tree.path(under)}: no parquet file belongs to a split {split!r}. There are "
            f"{', '.join(sorted(shards))}."
        )
    chosen = shards[split] if split else sorted(chain.from_iterable(shards.values()))
    return read_shards(tree, chosen, columns)


def read_shards(tree: Tree, shards: Sequence[str], columns: Columns | None = None) -> Reading:
    """Read parquet files by their names in a tree.

    Raises:
        AsdfError, UsageError: as `read_parquet`.
    """
    parts = []
    notes = []
    for shard in shards:
        table = ParquetTable(tree.path(shard))
        part = _Shard(shard, table, columns or Columns())
        if part.is_of_recordings:
            parts.append(part)
        else:
            notes.append(f"{shard} has no recordings: it is left out")
    if not parts:
        raise AsdfError(
            f"{tree.root}: none of the {len(shards)} parquet files holds or names recordings. Is "
            "it the folder of the data set, downloaded completely?"
        )
    trials = _collect(tree.root, parts)
    audio = [part.name if part.holds_audio else part.folder for part in parts]
    return Reading(trials, audio=tuple(dict.fromkeys(audio)), notes=notes)


def read_datasets(where: str, split: str, folder: Path, columns: Columns) -> tuple[Reading, Tree]:
    """Read a folder that the library datasets wrote: parquet files with a description.

    Raises:
        AsdfError, UsageError: as `read_parquet`; or the folder was written by `save_to_disk`.
    """
    tree = open_tree(folder / Path(where).expanduser())
    arrow = [name for name in tree.files() if name.endswith(".arrow")]
    if arrow and not any(name.endswith(SUFFIX) for name in tree.files()):
        raise AsdfError(
            f"{tree.root} holds {arrow[0]}, which only the library datasets reads. Write parquet: "
            "datasets.load_from_disk(FOLDER).to_parquet("
            f"'FOLDER/{split or 'train'}-00000-of-00001.parquet')."
        )
    return read_parquet(tree, split, columns), tree


def read_hub(where: str, split: str, folder: Path, columns: Columns) -> tuple[Reading, Tree]:
    """Read a data set of the hub in parquet, after downloading it.

    Raises:
        AsdfError, UsageError: as `read_parquet`; or it cannot be downloaded.
    """
    commit, shards = download_dataset(where, split)
    tree = open_tree(commit)
    return read_shards(tree, shards, columns), tree


def download_dataset(text: str, split: str = "") -> tuple[Path, list[str]]:
    """Download the shards of one split of a data set, unless they are in the cache.

    Returns:
        Folder of the commit, whose name is the commit, and paths of the shards relative to it.

    Args:
        text: Name, as in `parse_dataset`.
        split: Name of the split; '' if there is only one.

    Raises:
        UsageError: huggingface_hub is not installed, or the name does not select a configuration or
            split; the message lists them.
        AsdfError: the data set does not exist, has no parquet, or cannot be downloaded.
    """
    name, configuration = parse_dataset(text)
    contents = look_up(name)
    with explained(name):
        shards = choose_shards(name, configuration, split, list(contents.sizes))
        return contents.download(shards), shards


def choose_shards(dataset: HubName, wanted: str, split: str, names: Sequence[str]) -> list[str]:
    """Return the shards of a split among the files of a repository, sorted.

    Args:
        wanted: Name of the configuration; '' for none.

    Raises:
        UsageError: there are several configurations or splits, and the name does not select one.
        AsdfError: the repository has no parquet, or not the selected one.
    """
    by_split: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in names:
        if name.lower().endswith(SUFFIX):
            folder, of_split = locate_shard(name)
            # Names that the hub's tools use for a data set without configurations.
            configuration = "" if folder in ("data", "default") else folder
            by_split[configuration][of_split].append(name)
    where = str(dataset)
    if not by_split:
        hint = f"hub:{dataset.repository}@{CONVERTED}"
        if dataset.revision == CONVERTED:
            hint = "its files, by hf download --repo-type dataset, and a list of them"
        raise AsdfError(
            f"{where} holds no parquet files, but {quoted_and_more(sorted(names), _SHOWN)}. The "
            f"hub converts public data sets itself (large ones in part): try {hint}."
        )
    splits = _pick("configuration", wanted, by_split, where, "/")
    return sorted(_pick("split", split, splits, where, ":"))


def _pick(what: str, wanted: str, known: Mapping[str, T], where: str, sign: str) -> T:
    """Return the value of the wanted name, or the only value if no name is wanted.

    Raises:
        UsageError: there are several, and no name is wanted.
        AsdfError: there is none with this name.
    """
    names = sorted(known)
    if wanted and wanted not in known:
        raise AsdfError(
            f"{where} has no {what} {wanted!r}.{did_you_mean(wanted, names)} It has "
            f"{', '.join(name or '(no name)' for name in names)}."
        )
    if not wanted and len(names) > 1 and "" not in known:
        raise UsageError(
            f"{where} has {len(names)} of them, so name the {what}: "
            f"{', '.join(f'{where}{sign}{name}' for name in names)}."
        )
    if not wanted:
        # Without a name if there is one, since '' is sorted first.
        wanted = names[0]
    return known[wanted]


class ShardPlace(NamedTuple):
    """The part of a data set that a shard belongs to.

    Attributes:
        folder: Folder of its configuration; '' if there is none.
        split: Split that it belongs to.
    """

    folder: str
    split: str


def locate_shard(name: str) -> ShardPlace:
    """Return the configuration and split that a shard belongs to.

    Examples:
        >>> locate_shard("data/test-00000-of-00002.parquet")
        ShardPlace(folder='data', split='test')
        >>> locate_shard("en/test/0000.parquet")  # the hub's own conversions
        ShardPlace(folder='en', split='test')
    """
    folder, _, file_name = name.rpartition("/")
    stem = file_name.rpartition(".")[0]
    numbered = _NUMBERED.fullmatch(stem)
    if numbered:
        return ShardPlace(folder, numbered.group(1))
    if stem.isdigit() and folder:
        outer, _, split = folder.rpartition("/")
        return ShardPlace(outer, split)
    return ShardPlace(folder, stem)


def read_parquet_list(path: Path, columns: Columns | None = None) -> TrialList:
    """Read a list in parquet with a row per recording, its path and label, such as DeepFense's.

    Raises:
        AsdfError, UsageError: as `read_parquet`.
    """
    shard = _Shard("", ParquetTable(path), columns or Columns())
    if not shard.is_list:
        raise AsdfError(
            f"{path} is not a list: it needs columns of paths and of labels, and has "
            f"{', '.join(shard.table.columns)}."
        )
    return _collect(path, [shard], listed=True)


class _Shard:
    """A parquet file, and the interpretation of its columns.

    Attributes:
        name: Name in the tree; '' for a list.
        folder: Folder of the file.
    """

    def __init__(self, name: str, table: ParquetTable, columns: Columns) -> None:
        self.name = name
        self.folder = name.rpartition("/")[0]
        self.table = table
        self._columns = columns
        # The class names of each column that the data set describes.
        self._classes: dict[str, list[str]] = {}
        for column, description in table.descriptions().items():
            if isinstance(description, dict) and isinstance(description.get("names"), list):
                self._classes[column] = description["names"]
        for wanted in columns.names.values():
            if wanted not in table.columns:
                raise UsageError(
                    f"{table.path} has no column {wanted!r}: it has {', '.join(table.columns)}."
                )
        path = [name for name in NAMES if name in table.columns]
        label = [name for name in _LABELS if name in table.columns]
        # Reversed, so that of several spellings of a name the first column remains.
        plain = {plain_word(name): name for name in reversed(table.columns)}
        label += [plain[name] for name in LABEL_NAMES if name in plain]
        meant = [column for column, names in self._classes.items() if are_labels(column, names)]
        label += meant if len(meant) == 1 else []
        self._path = columns.names.get("path", next(iter(path), ""))
        self._label = columns.names.get("label", next(iter(label), ""))
        # The data set's own description of its classes takes precedence.
        if columns.classes and self._label not in self._classes:
            self._classes[self._label] = list(columns.classes)

    @property
    def is_list(self) -> bool:
        return bool(self._path and self._label)

    @property
    def is_of_recordings(self) -> bool:
        return self.table.audio is not None or self.is_list

    @property
    def holds_audio(self) -> bool:
        """Whether the file contains the recordings; otherwise it has their paths."""
        audio = self.table.audio
        # The library datasets writes only paths if recordings were files.
        return audio is not None and (self.table.has_audio or not audio.path_leaf)

    def ids(self) -> list[str]:
        """Return the names of the recordings in the tree, a name per row."""
        if not self.holds_audio and self.table.audio is not None:
            leaf = self.table.audio.path_leaf
            paths = self.table.read([leaf])[leaf]
            if None in paths or "" in paths:
                row = next(row for row, path in enumerate(paths) if not path)
                raise AsdfError(
                    f"{self.table.path}: row {row} has neither a recording nor a path of one. "
                    "Leave it out, or write the data set again with its recordings."
                )
            return [path if path[0] == "/" else join_name(self.folder, path) for path in paths]
        if self.name and self.table.audio is not None:
            folder = find_folder(self.table.path)
            archive = None if folder is None else folder.archive
            assert isinstance(archive, ParquetArchive)
            return [f"{self.name}/{name}" for name in archive.row_names()]
        paths = self.table.read([self._path])[self._path]
        return [join_name(self.folder, str(path)) for path in paths]

    def labels(self) -> Iterator[int]:
        """Yield the label of each row: 1 bona fide, 0 spoof."""
        if not self._label:
            raise AsdfError(
                f"{self.table.path} has no column of labels: it has "
                f"{', '.join(self.table.columns)}. Declare it in run.py, {_DECLARE}."
            )
        # Millions of rows have a handful of different labels.
        known: dict[Any, int] = {}
        stated = self._columns.bona_fide_values
        for row, value in enumerate(self.table.read([self._label])[self._label]):
            where = f"{self.table.path}, row {row}: {self._label} = {shorten(repr(value))}"
            if isinstance(value, list | dict):
                raise AsdfError(
                    f"{where} is not a single value, as a label must be. Declare its column in "
                    f"run.py, {_DECLARE}; the columns are {', '.join(self.table.columns)}."
                )
            if value not in known:
                word = self._word_of(self._label, value)
                label = meaning_of(self._label, word)
                if stated:
                    label = int(not stated.isdisjoint((word.lower(), str(value).lower())))
                if label is None:
                    raise AsdfError(
                        f"{where}: its meaning is not known, neither from its name nor from a "
                        f"description of the classes. Declare what is bona fide in run.py, "
                        f"{_DECLARE}."
                    )
                known[value] = label
            yield known[value]

    def _word_of(self, column: str, value: object) -> str:
        """Return a value as a word; for a class, its name."""
        names = self._classes.get(column)
        if names is not None and isinstance(value, int) and 0 <= value < len(names):
            return str(names[value])
        if value is None:
            return ""
        # TABs and line breaks would corrupt tables of trials.
        return " ".join(str(value).split())

    def columns(self) -> dict[str, list[str]]:
        """Return the other columns that may describe a trial, as words; for notes, its entries."""
        described = {theirs: ours for ours, theirs in self._columns.names.items()}
        taken = {self._label, self._path, *NAMES}
        # Here, because asdf works without it as long as no parquet is read.
        import pyarrow

        types = pyarrow.types
        are_plain = (
            *(types.is_string, types.is_large_string, types.is_dictionary),
            *(types.is_integer, types.is_boolean),
        )
        names = []
        for part in self.table.schema:
            if part.name not in taken and any(is_kind(part.type) for is_kind in are_plain):
                names.append(part.name)
        columns: dict[str, list[str]] = {}
        for name, values in self.table.read(names).items():
            if name == "notes":
                columns.update(_open_notes(values, self.table))
            else:
                words = [self._word_of(name, value) for value in values]
                columns[described.get(name, name)] = words
        return columns


def _collect(path: Path, shards: Sequence[_Shard], listed: bool = False) -> TrialList:
    """Return the rows of all shards as one list; missing columns are ''."""
    columns_of = [shard.columns() for shard in shards]
    names = list(dict.fromkeys(name for columns in columns_of for name in columns))
    collector = TrialCollector(path, names, listed)
    row = 0
    for shard, columns in zip(shards, columns_of, strict=True):
        ids = shard.ids()
        values = [columns.get(name) or [""] * len(ids) for name in names]
        for index, label in enumerate(shard.labels()):
            row += 1
            cells = [column[index] for column in values]
            collector.add(row, ids[index], label, cells_of_trial(label, names, cells))
    return collector.trials()


def _open_notes(values: Sequence[object], table: ParquetTable) -> dict[str, list[str]]:
    """Return the entries of a column of JSON objects as columns; other columns are unchanged."""
    columns: dict[str, list[str]] = {}
    for row, text in enumerate(values):
        try:
            entries = json.loads(str(text)) if text else {}
        except (ValueError, RecursionError):
            # Brackets nested a thousand deep are text too.
            entries = None
        if not isinstance(entries, dict):
            return {"notes": [" ".join(str(value or "").split()) for value in values]}
        for name, value in entries.items():
            column = columns.setdefault(name, [""] * len(values))
            column[row] = "" if value is None else " ".join(str(value).split())
    return {_ENTRIES.get(name, name): column for name, column in columns.items()}


def _read_arena(tree: Tree, name: str) -> Reading:
    """Read the set `name` of the Arena, whose folder is in the tree, or is the tree."""
    if not name:
        raise AsdfError(f"{tree.root}: name one of the Arena's sets, as in 'arena:InTheWild'.")
    under = first_there(tree, (name, f"arena/{name}", f"{_ARENA}/{name}")) or ""
    if not under and tree.root.name != name:
        raise AsdfError(
            f"{tree.root}: there is no folder {name}. Download the set: hf download "
            f"{_ARENA}/{name} --repo-type dataset --local-dir {tree.root / name}"
        )
    labels = join_name(under, _LABEL_TABLE)
    if not is_there(tree, labels) or any(
        name.endswith(SUFFIX) and locate_shard(name).split == "test" for name in tree.files(under)
    ):
        return read_parquet(tree, "test", Columns(classes=_CLASSES), under)
    # The audio of some sets may not be redistributed: there are only labels, and recordings below
    # the set's folder with the names of the utterances.
    table = ParquetTable(tree.path(labels))
    wanted = ("utterance_id", "label")
    missing = [column for column in wanted if column not in table.columns]
    if missing:
        raise AsdfError(
            f"{table.path} has no column {missing[0]!r}, but {', '.join(table.columns)}. Labels of "
            "a set of the Arena are utterance_id and label: download the set again."
        )
    values = table.read(wanted)
    collector = TrialCollector(table.path, ["utterance_id"])
    pairs = zip(values["utterance_id"], values["label"], strict=True)
    for row, (utterance, number) in enumerate(pairs, 1):
        if number not in (0, 1):
            raise AsdfError(f"{table.path}, row {row}: the label {number!r} is neither 0 nor 1.")
        collector.add(row, utterance, int(number == _CLASSES.index("bonafide")), [utterance])
    trials = with_files(collector.trials(), tree, (under,), ".wav")
    note = "the set has only labels: its recordings come from the corpus's own distribution"
    return Reading(trials, audio=(under,), notes=[note])


_ARENA = "SpeechAntiSpoofingBenchmarks"
_LABEL_TABLE = "data/labels.parquet"
ARENA = KnownCorpus(
    name="arena",
    title="A set of the Speech Anti-Spoofing Arena, in parquet",
    homepage=f"https://huggingface.co/{_ARENA}",
    licence="that of the set; see its page",
    needs="<set>/data/test-*.parquet, also in a folder arena; pip install "
    "'asdf-antispoofing[parquet]'",
    folders=("",),
    read=_read_arena,
    subset_of="set",
    published={
        "ASVspoof2019_LA": Published(71_237, 7_355),
        "ASVspoof2021_LA": Published(181_566),
        "ASVspoof2021_DF": Published(611_829),
        "InTheWild": Published(31_779, 19_963),
        "ASVspoof5": Published(680_774),
        "CD-ADD": Published(20_786),
        "SONAR": Published(3_948),
        "LibriSeVoc": Published(18_487),
        "CFAD": Published(62_999),
        "CVoiceFake_small": Published(138_136),
        "DFADD": Published(3_755, 755),
        "PyAra": Published(201_778, 73_583),
        "XMAD": Published(368_085, 160_656),
    },
    source="the corpora's label files, the pages of the sets and of systems in the Arena",
)
HUB = KnownCorpus(
    name="hub",
    title="Any data set of the hub in parquet",
    homepage="https://huggingface.co/datasets",
    licence="that of the data set; see its page",
    needs="hub:ORG/NAME:SPLIT as a name, with a configuration hub:ORG/NAME/CONFIGURATION:SPLIT, "
    "at a revision hub:ORG/NAME@REVISION:SPLIT; pip install 'asdf-antispoofing[hub,parquet]'",
    read=read_parquet,
    subset_of="data set",
)
DATASETS = KnownCorpus(
    name="datasets",
    title="A data set that the library datasets wrote as parquet",
    homepage="https://huggingface.co/docs/datasets",
    licence="that of the data set; see its page",
    needs="datasets:FOLDER or datasets:FOLDER:SPLIT as a name; pip install "
    "'asdf-antispoofing[parquet]'",
    read=read_parquet,
    subset_of="split",
)
PARQUET = KnownCorpus(
    name="parquet",
    title="Any data set in parquet",
    homepage="https://huggingface.co/docs/hub/datasets-audio",
    licence="that of the data set; see its page",
    needs="a line in run.py, Corpus(reader='parquet', folder='...'); *.parquet with a column of "
    "recordings (bytes) or of their paths, and labels; pip install 'asdf-antispoofing[parquet]'",
    read=read_parquet,
    read_columns=read_parquet,
    subset_of="split",
)
