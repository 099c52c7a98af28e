"""Folders of Kaldi and WeDefense: `wav.scp` (UTT PATH) with `utt2lab` (UTT LABEL), and `utt2spk`.

Invariant: a trial is a line of `utt2lab`; a path that is a command ('flac -c -d a.flac |') is
refused, because nothing in a list is executed.

The files have the content that zlin0/wedefense writes: egs/detection/*/local/prepare_data.sh.
"""

from __future__ import annotations

from collections.abc import Mapping

from asdf.corpora.known_corpus import KnownCorpus, Reading, is_there, join_name
from asdf.errors import AsdfError
from asdf.trials.label_words import label_of
from asdf.trials.table import TrialCollector
from asdf.trials.trees import Tree

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
                "spoof. utt2lab must hold labels of both classes, not names of attacks or systems."
            )
        if utterance not in paths:
            raise AsdfError(
                f"{label_file}: {utterance} is not in {_PATHS}. The two files likely belong to "
                "different sets."
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
    folders=(),
    marks=(),
    read=read_kaldi,
    subset_of="folder of it",
)
