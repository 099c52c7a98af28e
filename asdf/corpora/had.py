"""HAD, half-truth audio detection (Yi et al., Interspeech 2021): words exchanged, in Mandarin."""

from __future__ import annotations

import numpy as np

from asdf.corpora.known import KnownCorpus, Reading, first_there, with_files
from asdf.corpora.timed_parts import with_parts
from asdf.errors import AsdfError
from asdf.segments import parse_text
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

_HOMES = ("", "HAD/")
_SUBSETS = ("train", "dev", "test")


def _read(tree: Tree, subset: str) -> Reading:
    file = f"HAD_{subset}/HAD_{subset}_label.txt"
    label_file = first_there(tree, [home + file for home in _HOMES])
    if label_file is None:
        raise AsdfError(f"{tree.root}: there is no {file}, nor HAD/{file}. Unpack HAD.zip there.")
    recordings = parse_text(tree.lines(label_file), tree.path(label_file))
    if not recordings:
        raise AsdfError(f"{tree.path(label_file)}: no trial in it. Was it copied whole?")
    labels = [int(not timed.spoofed) for timed in recordings.values()]
    names = list(recordings)
    trials = TrialList(names, np.array(labels, np.int8))
    trials, notes = with_parts(trials, recordings, names, label_file)
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
