"""AT-ADD and ESDD2 (both 2026): speech with other sounds, labelled by synthetic components.

Sources of the layouts: the READMEs and loaders of xieyuankun/AT-ADD-Baseline (config.py,
dataset.py) and XuepingZhang/ESDD2-Baseline (conf.py, libs/dataset.py), which have no counts.
"""

from __future__ import annotations

import csv

from asdf.corpora.known_corpus import Format, KnownCorpus, Lists, Reading, SubsetFiles, find_labels
from asdf.errors import AsdfError
from asdf.trials.lists import Tree
from asdf.trials.table import TrialCollector

_AT_ADD_SUBSETS = ("train", "dev", "eval")


def _at_add(number: int, columns: dict[str, str], what: str) -> KnownCorpus:
    track = f"T{number}"
    files = {}
    for subset in _AT_ADD_SUBSETS:
        files[subset] = SubsetFiles(
            (f"{track}/label/{subset}.csv", f"label/{subset}.csv"), (f"{track}/{subset}", subset)
        )
    reader = Lists(
        Format(columns),
        files,
        f"Labels are in {track}/label: train.csv and dev.csv, and eval.csv where it is published.",
    )
    return KnownCorpus(
        name=f"at-add-track{number}",
        title=f"AT-ADD 2026, track {number}: {what}",
        homepage=f"https://huggingface.co/datasets/xieyuankun/AT-ADD-Track{number}",
        licence="on registration; see its page",
        needs=f"{track}/{{train,dev,eval}}/*.wav and {track}/label/{{train,dev}}.csv",
        folders=("atadd", "AT-ADD", "at-add", f"AT-ADD-Track{number}"),
        marks=(f"{track}/label", "label"),
        read=reader.read,
        subsets=_AT_ADD_SUBSETS,
        usual="eval",
    )


AT_ADD_TRACK1 = _at_add(1, {"name": "utterance", "label": "key"}, "speech")
AT_ADD_TRACK2 = _at_add(
    2, {"name": "utterance", "label": "key", "type": "type"}, "speech, sound, singing and music"
)

# The label used here for each label, and the nature of speech and surroundings.
_COMPONENTS = {
    "original": (1, "bonafide", "bonafide"),
    "bonafide_bonafide": (1, "bonafide", "bonafide"),
    "spoof_bonafide": (0, "spoof", "bonafide"),
    "bonafide_spoof": (0, "bonafide", "spoof"),
    "spoof_spoof": (0, "spoof", "spoof"),
}
_ESDD2_LISTS = {
    "train": "development/metadata/train.csv",
    "val": "development/metadata/val.csv",
    "eval": "eval/metadata/eval.csv",
    "test": "test/metadata/test.csv",
}
_UNKNOWN = "-"  # label of lines whose truth is not published


def read_esdd2(tree: Tree, subset: str) -> Reading:
    """Read a subset of CompSpoof V2; a spoofed component, speech or surroundings, means spoof.

    Raises:
        AsdfError: its list does not exist, lacks a column, or has another label.
    """
    advice = "It comes with the data set: CompSpoofV2/development, eval and test."
    name = find_labels(tree, [_ESDD2_LISTS[subset]], advice)
    path = tree.path(name)
    collector = TrialCollector(path, ["component", "speech", "environment"])
    left_out = []
    header: list[str] = []
    for number, line in tree.lines(name):
        cells = next(csv.reader([line]))
        if not header:
            header = cells
            missing = [column for column in ("audio_path", "label") if column not in header]
            if missing:
                raise AsdfError(f"{path}, line {number}: it has no column {', '.join(missing)}.")
            continue
        # A short line has no label, which is reported below.
        row = dict(zip(header, cells, strict=False))
        label = row.get("label", "")
        utterance = row.get("audio_path", "").lstrip("/")
        if label == _UNKNOWN:
            left_out.append(utterance)
            continue
        if label not in _COMPONENTS or not utterance:
            known = ", ".join(_COMPONENTS)
            raise AsdfError(f"{path}, line {number}: the label {label!r} is not one of {known}.")
        value, speech, environment = _COMPONENTS[label]
        collector.add(number, utterance, value, [label, speech, environment])
    notes = []
    if left_out:
        notes.append(f"lines whose label is not published, left out: {len(left_out)}")
    trials = collector.trials()
    folders = sorted({utterance.rpartition("/")[0] for utterance in trials.ids})
    return Reading(trials, audio=folders, others=frozenset(left_out), notes=notes)


ESDD2 = KnownCorpus(
    name="esdd2",
    title="ESDD2 (ICME 2026), CompSpoof V2: speech and surroundings, each genuine or synthetic",
    homepage="https://huggingface.co/datasets/XuepingZhang/ESDD2-CompSpoof-V2",
    needs="development/metadata/{train,val}.csv, eval/metadata/eval.csv, test/metadata/test.csv, "
    "and the recordings of their column audio_path",
    folders=("CompSpoofV2", "ESDD2-CompSpoof-V2", "CompSpoof-V2", "ESDD2"),
    marks=("development/metadata", "eval/metadata", "test/metadata"),
    read=read_esdd2,
    subsets=tuple(_ESDD2_LISTS),
    usual="eval",
)
