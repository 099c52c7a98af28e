"""HAD, half-truth audio detection (Yi et al., Interspeech 2021): words exchanged, in Mandarin."""

from __future__ import annotations

from asdf.corpora.known import KnownCorpus, Reading, find_labels, with_files
from asdf.corpora.timed_parts import read_parts
from asdf.trials.trees import Tree

_HOMES = ("", "HAD/")
_SUBSETS = ("train", "dev", "test")


def _read(tree: Tree, subset: str) -> Reading:
    file = f"HAD_{subset}/HAD_{subset}_label.txt"
    label_file = find_labels(tree, [home + file for home in _HOMES], "Unpack HAD.zip there.")
    trials, notes = read_parts(tree, label_file)
    # Below it they lie in train/conbine, conbine or test/test, as archives inside the archive were
    # unpacked.
    audio = (label_file.rsplit("/", 1)[0],)
    return Reading(with_files(trials, tree, audio, ".wav"), audio, notes=notes)


HAD = KnownCorpus(
    title="HAD",
    homepage="https://zenodo.org/records/10377492",
    licence="see its page",
    needs="HAD.zip and the archives in it unpacked: HAD_{train,dev,test}/HAD_*_label.txt and the "
    "recordings below the same folders",
    folders=("HAD", "had", "HalfTruth", "Half-Truth", ""),
    marks=tuple(f"{home}HAD_{subset}" for home in _HOMES for subset in _SUBSETS),
    read=_read,
    subsets=_SUBSETS,
    usual="test",
)
