"""PartialSpoof (Zhang et al., IEEE/ACM TASLP 2023): ASVspoof 2019 LA, parts of it exchanged.

Segments come as RTTM with the recordings, or in an archive of their own as arrays of labels per
frame; RTTM, whose boundaries are exact, counts first, then the finest arrays.
"""

from __future__ import annotations

from asdf.corpora.known import KnownCorpus, Reading, find_labels, first_there, with_files
from asdf.corpora.protocols import read_from
from asdf.corpora.timed_parts import with_parts
from asdf.facts import PUBLISHED
from asdf.segments import Timed, parse_rttm, read_label_arrays
from asdf.trials.trees import Tree

_HOMES = ("", "database/")
_PROTOCOLS = "protocols/PartialSpoof_LA_cm_protocols"
_RTTMS = ("rttm_2cls_0sil", "rttm", "rttm_localization")
_RESOLUTIONS = ("0.01", "0.02", "0.04", "0.08", "0.16", "0.32", "0.64")


def _read(tree: Tree, subset: str) -> Reading:
    file = f"{_PROTOCOLS}/PartialSpoof.LA.cm.{subset}.trl.txt"
    advice = "Nor is it in database. Unpack database_protocols.tar.gz there."
    protocol = find_labels(tree, [home + file for home in _HOMES], advice)
    home = protocol.removesuffix(file)
    trials = read_from(tree, protocol)
    source, recordings = _read_segments(tree, home, subset)
    trials, notes = with_parts(trials, recordings, trials.ids, source)
    audio = (f"{home}{subset}/con_wav",)
    return Reading(with_files(trials, tree, audio, ".wav"), audio, notes=notes)


def _read_segments(tree: Tree, home: str, subset: str) -> tuple[str, dict[str, Timed]]:
    """Return the file of segments and what it says of each recording; nothing without a file."""
    rttm = first_there(tree, [f"{home}{subset}/con_data/{name}" for name in _RTTMS])
    if rttm is not None:
        return rttm, parse_rttm(tree.lines(rttm), tree.path(rttm))
    folder = f"{home}segment_labels"
    for resolution in _RESOLUTIONS:
        arrays = first_there(tree, [f"{folder}/{subset}_seglab_{resolution}.npy"])
        if arrays is not None:
            return arrays, read_label_arrays(tree.path(arrays), float(resolution))
    return f"{folder} (database_segment_labels_v1.2.tar.gz), which is not there,", {}


PARTIAL_SPOOF = KnownCorpus(
    title="PartialSpoof",
    homepage="https://zenodo.org/records/5766198",
    licence="see its page",
    needs=f"database_*.tar.gz unpacked: database/{_PROTOCOLS}, database/{{train,dev,eval}}/con_wav,"
    " database/segment_labels",
    folders=("PartialSpoof", "partialspoof", "PartialSpoof_v1.2", ""),
    marks=tuple(home + _PROTOCOLS for home in _HOMES),
    read=_read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published=PUBLISHED["partial-spoof"],
    source="the paper's table, which are those of ASVspoof 2019 LA",
)
