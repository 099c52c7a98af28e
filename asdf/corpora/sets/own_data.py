"""Data of your own: folders of classes with any nesting, and folders of Kaldi and WeDefense.

Invariant: the names of the folders on its path, real/ and fake/, bonafide/ and spoof/, determine a
recording's class. Contradictory folders are an error; recordings without such a folder are counted
in a note, and their classes are never guessed.

A folder of Kaldi has `wav.scp` (UTT PATH) with `utt2lab` (UTT LABEL), and `utt2spk`, with the
content that zlin0/wedefense writes: egs/detection/*/local/prepare_data.sh. A trial is a line of
`utt2lab`; a path that is a command ('flac -c -d a.flac |') is refused, because nothing in a list is
executed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from asdf.corpora.known_corpus import KnownCorpus, Reading, is_there, join_name, recordings
from asdf.errors import AsdfError
from asdf.text import quoted_and_more
from asdf.trials.label_words import label_of, plain_word, words_in
from asdf.trials.lists import Tree, read_list
from asdf.trials.table import TrialCollector

SPLITS = {
    **dict.fromkeys(("train", "training", "trn"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation", "development"), "dev"),
    **dict.fromkeys(("eval", "evaluation", "test", "testing", "tst"), "eval"),
}
"""Names of folders of splits, with the names used here."""

_SHOWN = 8
_CLASS_NAMES = {1: "bona fide", 0: "spoof"}


@dataclass(frozen=True)
class _Way:
    """The folders on the path of a recording.

    Attributes:
        label: Label, 1 bona fide, 0 spoof; None if no folder determines it.
        split: Split, 'train', 'dev' or 'eval'; '' if no folder determines it.
        below: First folder below that of the class which is not a split; '' if there is none.
    """

    name: str
    label: int | None
    split: str
    below: str


def read_class_folders(tree: Tree, split: str, bona_fide: Collection[str] = ()) -> Reading:
    """Read the recordings of a tree by the names of its folders.

    Args:
        split: Split to read: 'train', 'dev', 'eval', or another name of such folders; '' is
            everything. Without such folders it is the list that `python -m asdf lists` wrote into
            the tree.
        bona_fide: Names of folders with bona fide recordings; all others are then spoofs. Empty:
            the words in folder names decide.

    Raises:
        AsdfError: no folder determines a class, folders contradict each other, or there is no such
            split.
    """
    wanted = SPLITS.get(plain_word(split), split)
    ways = list(_ways(tree, bona_fide))
    splits = {way.split for way in ways if way.label is not None}
    written = f"{wanted}_list.txt"
    # Folders of splits take precedence over written lists.
    if split and not splits - {""} and tree.exists(written):
        trials = read_list(tree.path(written), tree.root)
        rest = frozenset(way.name for way in ways) - frozenset(trials.ids)
        return Reading(trials, audio=("",), others=rest, notes=[f"trials are those of {written}"])
    if split and wanted not in splits:
        named = ", ".join(sorted(splits - {""})) or "none"
        raise AsdfError(
            f"{tree.root}: no folder belongs to a split {split!r}; found: {named}. Folders of "
            f"splits are called {', '.join(SPLITS)}; or write lists: python -m asdf lists "
            f"{tree.root}"
        )
    labelled = [way for way in ways if way.label is not None]
    if not ways:
        raise AsdfError(f"{tree.root}: no recordings found. Check the path.")
    if not labelled:
        seen = Counter(part for way in ways for part in way.name.split("/")[:-1])
        names = [name for name, _ in seen.most_common()]
        raise AsdfError(
            f"{tree.root}: no folder name says which recordings are bona fide and which are "
            f"spoofs. Folders in it: {quoted_and_more(names, _SHOWN) if names else 'none'}. Known "
            "names: real, bonafide, genuine, human, original; fake, spoof, deepfake, synthetic, "
            "generated, ai, tts, cloned. Specify the others: python -m asdf lists FOLDER "
            "--bona-fide NAME, or write a csv with path,label."
        )
    # Columns are those of all splits, so that each split has the same ones.
    columns = _columns(labelled)
    collector = TrialCollector(tree.root, columns)
    chosen = (way for way in labelled if not split or way.split == wanted)
    for number, way in enumerate(chosen, 1):
        attack = way.below if way.label == 0 else ""
        values = {"split": way.split, "folder": way.below, "attack": attack or "-"}
        collector.add(number, way.name, way.label or 0, [values[name] for name in columns])
    trials = collector.trials()
    unknown = [way.name for way in ways if way.label is None]
    notes = []
    if unknown:
        notes.append(
            f"recordings not below a folder named after a class, left out: {len(unknown)}, such as "
            f"{unknown[0]}"
        )
    others = [way.name for way in labelled if split and way.split != wanted]
    return Reading(trials, audio=("",), others=frozenset((*others, *unknown)), notes=notes)


def has_class_folders(tree: Tree) -> bool:
    """Whether a recording of the tree is below a folder that determines its class."""
    return any(way.label is not None for way in _ways(tree, ()))


def _ways(tree: Tree, bona_fide: Collection[str]) -> Iterator[_Way]:
    """Yield the recordings sorted by name.

    Raises:
        AsdfError: folders on one path contradict each other.
    """
    stated = {name.lower() for name in bona_fide}
    known: dict[str, _Way] = {}
    for name in recordings(tree, ""):
        folder = name.rpartition("/")[0]
        # One folder may contain thousands of recordings.
        if folder not in known:
            known[folder] = _way(tree, folder, stated)
        way = known[folder]
        yield replace(way, name=name)


def _way(tree: Tree, folder: str, stated: Collection[str]) -> _Way:
    parts = folder.split("/") if folder else []
    splits = [_split_of(part) for part in parts]
    split = next(filter(None, reversed(splits)), "")
    if stated:
        is_bona_fide = [part.lower() in stated for part in parts]
        label = int(any(is_bona_fide))
        deepest = is_bona_fide.index(True) if label else -1
        rest = parts[deepest + 1 :]
    else:
        labels = [label_of(part) for part in parts]
        # Whole names first: in real_estate/fake, the word real must not contradict fake.
        if set(labels) <= {None}:
            labels = []
            for part in parts:
                # The label given by a word of the name; None for none, or for both classes.
                said = {label_of(word) for word in words_in(part)} - {None}
                labels.append(said.pop() if len(said) == 1 else None)
        indices = [index for index, label in enumerate(labels) if label is not None]
        if len({labels[index] for index in indices}) > 1:
            named = ", ".join(f"{parts[i]} ({_CLASS_NAMES[labels[i] or 0]})" for i in indices)
            raise AsdfError(
                f"{tree.path(folder)}: its folders name both classes: {named}. Rename one of them, "
                "or name the folder of genuine speech: --bona-fide NAME."
            )
        if not indices:
            return _Way(folder, None, split, "")
        label = labels[indices[-1]] or 0
        rest = parts[indices[-1] + 1 :]
    below = next((part for part in rest if not _split_of(part)), "")
    return _Way(folder, label, split, below)


def _split_of(name: str) -> str:
    split = SPLITS.get(plain_word(name), "")
    if split:
        return split
    splits = {SPLITS[word] for word in words_in(name) if word in SPLITS}
    return splits.pop() if len(splits) == 1 else ""


def _columns(ways: Sequence[_Way]) -> list[str]:
    """Return the columns given by the folders: split, and attack or folder.

    Folders below that of spoofs are attacks, unless genuine speech has folders with the same names,
    for example of speakers.
    """
    columns = ["split"] if any(way.split for way in ways) else []
    folders = defaultdict(set)
    for way in ways:
        if way.below:
            folders[way.label].add(way.below)
    if folders[0] and not folders[0] & folders[1]:
        columns.append("attack")
    if folders[1] or folders[0] & folders[1]:
        columns.append("folder")
    return columns


FOLDER = KnownCorpus(
    name="folder",
    title="A folder of your own with folders of the classes, such as real/ and fake/",
    homepage="your own",
    licence="yours",
    needs="folder:PATH or folder:PATH:train as a name; recordings below folders called real, "
    "bonafide, genuine ... and fake, spoof, synthetic ..., also within train, dev and test",
    folders=("",),
    read=read_class_folders,
    subset_of="split",
)


_PATHS = "wav.scp"
_LABELS = "utt2lab"
_SPEAKERS = "utt2spk"


def read_kaldi(tree: Tree, subset: str) -> Reading:
    """Read the folder `subset` of a folder of lists; '' is that folder itself.

    Raises:
        AsdfError: a file is missing, a line is malformed, a path is a command, or an utterance has
            a label but no path.
    """
    paths = _read_pairs(tree, join_name(subset, _PATHS))
    labels = _read_pairs(tree, join_name(subset, _LABELS))
    speakers: Mapping[str, str] = {}
    if is_there(tree, join_name(subset, _SPEAKERS)):
        speakers = _read_pairs(tree, join_name(subset, _SPEAKERS))
    label_file = tree.path(join_name(subset, _LABELS))
    collector = TrialCollector(label_file, ["utterance_id", *(["speaker"] if speakers else [])])
    for number, (utterance, word) in enumerate(labels.items(), 1):
        label = label_of(word)
        if label is None:
            raise AsdfError(
                f"{label_file}: the label {word!r} of {utterance} means neither bona fide nor "
                "spoof, as utt2lab must, which holds no names of attacks or systems."
            )
        if utterance not in paths:
            raise AsdfError(
                f"{label_file}: {utterance} is not in {_PATHS}: do they belong to different sets?"
            )
        values = [utterance, *([speakers.get(utterance, "")] if speakers else [])]
        collector.add(number, _relative(tree, paths[utterance]), label, values)
    trials = collector.trials()
    others = [_relative(tree, path) for utterance, path in paths.items() if utterance not in labels]
    folders = sorted({name.rpartition("/")[0] for name in trials.ids})
    notes = []
    if others:
        notes.append(f"utterances of {_PATHS} without a label, left out: {len(others)}")
    return Reading(trials, audio=folders, others=frozenset(others), notes=notes)


def _read_pairs(tree: Tree, name: str) -> dict[str, str]:
    """Read a file of lines 'UTT VALUE'."""
    pairs: dict[str, str] = {}
    for number, line in tree.lines(name):
        # Once, because a path may contain spaces.
        cells = line.strip().split(None, 1)
        where = f"{tree.path(name)}, line {number}"
        if len(cells) != 2:
            raise AsdfError(f"{where}: expected 'UTTERANCE VALUE', found {line.strip()[:120]!r}.")
        utterance, value = cells
        if value.endswith("|"):
            raise AsdfError(
                f"{where}: {value[:120]!r} is a command, which is not executed. Name the recording "
                "itself: FLAC, mp3 and others are decoded as they are."
            )
        if utterance in pairs:
            raise AsdfError(f"{where}: {utterance} is in the file twice: remove one of the lines.")
        pairs[utterance] = value
    return pairs


def _relative(tree: Tree, path: str) -> str:
    """Return a path as a name in the tree if it is below it, else unchanged."""
    return path.removeprefix(f"{tree.root}/")


KALDI = KnownCorpus(
    name="kaldi",
    title="A folder of lists as Kaldi and WeDefense have them",
    homepage="https://github.com/zlin0/wedefense",
    licence="that of the corpus",
    needs="a line in run.py, Corpus(reader='kaldi:train', folder='...'); wav.scp and utt2lab, with "
    "paths that are absolute or relative to that folder",
    read=read_kaldi,
    subset_of="folder of it",
)
