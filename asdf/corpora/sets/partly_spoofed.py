"""Corpora of partly spoofed speech: PartialSpoof, HAD and LlamaPartialSpoof, and their parts.

PartialSpoof (Zhang et al., IEEE/ACM TASLP 2023) is ASVspoof 2019 LA with exchanged parts. Its
segments are in RTTM next to the recordings, or in a separate archive as arrays of labels per frame;
RTTM, whose boundaries are exact, is preferred, then the finest arrays.

HAD (Yi et al., Interspeech 2021) is half-truth audio detection: exchanged words in Mandarin.

LlamaPartialSpoof (Luong et al., ICASSP 2025) is LibriTTS with sentences changed by a language
model. R01TTS.0.a has bona fide, fully spoofed and partially spoofed recordings with cross-fades;
R01TTS.0.b has only partially spoofed ones, cut and pasted or overlapped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from asdf.corpora.known_corpus import (
    KnownCorpus,
    Origin,
    Reading,
    Taken,
    find_labels,
    first_there,
    with_files,
)
from asdf.corpora.label_lists import read_from
from asdf.errors import AsdfError
from asdf.facts import Published
from asdf.segments import (
    COLUMN,
    UNKNOWN,
    Timed,
    format_spoofed,
    read_label_arrays,
    read_rttm,
    read_text,
)
from asdf.trials.lists import Tree
from asdf.trials.trial_list import TrialList

Columns = dict[str, list[str]]


def read_parts(
    tree: Tree, label_file: str, columns_of: Callable[[list[str]], Columns] = lambda names: {}
) -> tuple[TrialList, list[str]]:
    """Return the trials of a text of segments, with the column of spoofed parts, and notes.

    Args:
        columns_of: Function that returns further columns from the names of all recordings.

    Raises:
        AsdfError: the file has no trial, or a line is malformed.
    """
    recordings = read_text(tree.path(label_file), tree.lines(label_file))
    if not recordings:
        raise AsdfError(f"{tree.path(label_file)}: no trials found. Was it copied completely?")
    names = list(recordings)
    labels = [int(not timed.spoofed) for timed in recordings.values()]
    trials = TrialList(names, np.array(labels, np.int8), columns=columns_of(names))
    return with_parts(trials, recordings, names, label_file)


def with_parts(
    trials: TrialList, recordings: Mapping[str, Timed], names: Sequence[str], source: str
) -> tuple[TrialList, list[str]]:
    """Return the trials with the column of spoofed parts, and notes on discrepancies.

    A spoof that is missing in the files, or has no spoofed part, has the value '?': localisation
    refuses it, and detection ignores it.

    Args:
        recordings: Parts of each recording, by its name in the files.
        names: Name of each trial in the files.
        source: Name of the file in notes.
    """
    values = []
    unknown: list[str] = []
    contradicting: list[str] = []
    for name, label in zip(names, trials.labels.tolist(), strict=True):
        timed = recordings.get(name)
        if label == 1:
            values.append(format_spoofed(()))
            if timed is not None and timed.spoofed:
                contradicting.append(name)
        elif timed is None:
            values.append(UNKNOWN)
            unknown.append(name)
        elif not timed.spoofed:
            values.append(UNKNOWN)
            contradicting.append(name)
        else:
            values.append(format_spoofed(timed.spoofed))
    notes = []
    if unknown:
        notes.append(
            f"{source} does not list {len(unknown):,} spoofs, such as {unknown[0]}: they cannot be "
            "used for localisation"
        )
    if contradicting:
        notes.append(
            f"{source} contradicts the labels of {len(contradicting):,} trials, such as "
            f"{contradicting[0]}: the labels are used"
        )
    return replace(trials, columns={**trials.columns, COLUMN: values}), notes


_PARTIAL_HOMES = ("", "database/")
_PROTOCOLS = "protocols/PartialSpoof_LA_cm_protocols"
_RTTMS = ("rttm_2cls_0sil", "rttm", "rttm_localization")
# The finest first, which has the most exact boundaries.
_RESOLUTIONS = ("0.01", "0.02", "0.04", "0.08", "0.16", "0.32", "0.64")


def read_partial_spoof(tree: Tree, subset: str) -> Reading:
    """Read a set of PartialSpoof, with its segments if they are there.

    Raises:
        AsdfError: its protocol does not exist, or a line is malformed.
    """
    file = f"{_PROTOCOLS}/PartialSpoof.LA.cm.{subset}.trl.txt"
    advice = "Nor is it in database. Unpack database_protocols.tar.gz there."
    protocol = find_labels(tree, [home + file for home in _PARTIAL_HOMES], advice)
    home = protocol.removesuffix(file)
    trials = read_from(tree, protocol)
    folder = f"{home}{subset}/con_data"
    labels = f"{home}segment_labels"
    recordings: dict[str, Timed] = {}
    source = f"{labels} (database_segment_labels_v1.2.tar.gz), which is not there,"
    arrays = {f"{labels}/{subset}_seglab_{text}.npy": float(text) for text in _RESOLUTIONS}
    if rttm := first_there(tree, [f"{folder}/{name}" for name in _RTTMS]):
        source, recordings = rttm, read_rttm(tree.path(rttm), tree.lines(rttm))
    elif array := first_there(tree, arrays):
        source, recordings = array, read_label_arrays(tree.path(array), arrays[array])
    trials, notes = with_parts(trials, recordings, trials.ids, source)
    audio = (f"{home}{subset}/con_wav",)
    return Reading(with_files(trials, tree, audio, ".wav"), audio, notes=notes)


PARTIAL_SPOOF = KnownCorpus(
    name="partial-spoof",
    title="PartialSpoof",
    homepage="https://zenodo.org/records/5766198",
    needs=f"database_*.tar.gz unpacked: database/{_PROTOCOLS}, database/{{train,dev,eval}}/con_wav,"
    " database/segment_labels",
    folders=("PartialSpoof", "partialspoof", "PartialSpoof_v1.2", ""),
    marks=tuple(home + _PROTOCOLS for home in _PARTIAL_HOMES),
    read=read_partial_spoof,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published={
        "train": Published(25_380, 2_580),
        "dev": Published(24_844, 2_548),
        "eval": Published(71_237, 7_355),
    },
    source="the paper's table, which are those of ASVspoof 2019 LA",
    origin=Origin(("VCTK",), "the corpus's paper: it is made of ASVspoof 2019 LA"),
    taken={
        "asvspoof19": Taken(
            "PartialSpoof is made of the recordings of ASVspoof 2019 LA", "the corpus's paper"
        )
    },
)

_HAD_HOMES = ("", "HAD/")
_HAD_SUBSETS = ("train", "dev", "test")


def read_had(tree: Tree, subset: str) -> Reading:
    """Read a set of HAD.

    Raises:
        AsdfError: as in `read_parts`; or its label file does not exist.
    """
    file = f"HAD_{subset}/HAD_{subset}_label.txt"
    label_file = find_labels(tree, [home + file for home in _HAD_HOMES], "Unpack HAD.zip there.")
    trials, notes = read_parts(tree, label_file)
    # Their folders are train/conbine, conbine or test/test, depending on how the inner archives
    # were unpacked.
    audio = (label_file.rsplit("/", 1)[0],)
    return Reading(with_files(trials, tree, audio, ".wav"), audio, notes=notes)


HAD = KnownCorpus(
    name="had",
    title="HAD",
    homepage="https://zenodo.org/records/10377492",
    needs="HAD.zip and the archives in it unpacked: HAD_{train,dev,test}/HAD_*_label.txt and the "
    "recordings below the same folders",
    folders=("HAD", "had", "HalfTruth", "Half-Truth", ""),
    marks=tuple(f"{home}HAD_{subset}" for home in _HAD_HOMES for subset in _HAD_SUBSETS),
    read=read_had,
    subsets=_HAD_SUBSETS,
    usual="test",
    origin=Origin(("AISHELL-3",), "the corpus's paper"),
)

_LLAMA_HOMES = ("", "LlamaPartialSpoof/")
# dev01-yourtts-partial-cf_8842_304647_000034_000001: the system, the extent of spoofing, and the
# way of joining; then the speaker.
_SPOOF = re.compile(
    r"dev01-(?P<attack>.+)-(?P<kind>full|partial)(?:-(?P<joint>\w+?))?_(?P<rest>.*)"
)


def read_llama(tree: Tree, subset: str) -> Reading:
    """Read a part of LlamaPartialSpoof, or the bona fide recordings with one kind of spoofs.

    Raises:
        AsdfError: as in `read_parts`; or its label file does not exist.
    """
    part = "R01TTS.0.b" if subset == "b" else "R01TTS.0.a"
    file = f"label_{part}.txt"
    advice = f"It is next to the archive {part}.tgz: put it next to the folder {part}."
    label_file = find_labels(tree, [home + file for home in _LLAMA_HOMES], advice)
    trials, notes = read_parts(tree, label_file, _columns_of)
    audio = (label_file.removesuffix(file) + part,)
    trials = with_files(trials, tree, audio, ".wav")
    if subset in ("a", "b"):
        return Reading(trials, audio, notes=notes)
    kinds = trials.columns["kind"]
    # Bona fide trials, '-', are compared with the spoofs of either kind.
    chosen = [index for index, kind in enumerate(kinds) if kind in ("-", subset)]
    # With a type, because numpy makes an empty list an array of floats.
    selected = trials.select(np.array(chosen, np.intp))
    others = frozenset(trials.ids) - frozenset(selected.ids)
    return Reading(selected, audio, others=others, notes=notes)


def _columns_of(names: list[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"speaker": [], "attack": [], "kind": [], "joint": []}
    for name in names:
        match = _SPOOF.fullmatch(name)
        groups = match.groupdict() if match else {"rest": name.partition("_")[2]}
        columns["speaker"].append(groups["rest"].partition("_")[0])
        for column in ("attack", "kind", "joint"):
            columns[column].append(groups.get(column) or "-")
    return columns


LLAMA_PARTIAL_SPOOF = KnownCorpus(
    name="llama-partial-spoof",
    title="LlamaPartialSpoof",
    homepage="https://zenodo.org/records/14214149",
    needs="R01TTS.0.a.tgz and R01TTS.0.b.tgz unpacked: the folders R01TTS.0.a and R01TTS.0.b, and "
    "next to them label_R01TTS.0.{a,b}.txt",
    folders=("LlamaPartialSpoof", "llamapartialspoof", "LPS", ""),
    marks=tuple(f"{home}label_R01TTS.0.{part}.txt" for home in _LLAMA_HOMES for part in "ab"),
    read=read_llama,
    subsets=("a", "b", "full", "partial"),
    usual="a",
    published={
        "a": Published(76_228, 10_573),
        "b": Published(64_388, 0),
        "full": Published(44_034, 10_573),
        "partial": Published(42_767, 10_573),
    },
    source="the paper's table; its sums are the lines of the label files",
    origin=Origin(("LibriTTS",), "the corpus's paper"),
)
