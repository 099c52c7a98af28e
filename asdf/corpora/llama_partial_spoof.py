"""LlamaPartialSpoof (Luong et al., ICASSP 2025): LibriTTS, sentences changed by a language model.

R01TTS.0.a has bona fide, fully spoofed and partially spoofed recordings whose parts cross-fade;
R01TTS.0.b has only partially spoofed ones, cut and pasted or overlapped.
"""

from __future__ import annotations

import re

import numpy as np

from asdf.corpora.known import KnownCorpus, Reading, first_there, with_files
from asdf.corpora.timed_parts import with_parts
from asdf.errors import AsdfError
from asdf.facts import PUBLISHED
from asdf.segments import parse_text
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

_HOMES = ("", "LlamaPartialSpoof/")
# dev01-yourtts-partial-cf_8842_304647_000034_000001: the system, how much of it is spoofed, and
# how the parts are joined; then the speaker.
_SPOOF = re.compile(
    r"dev01-(?P<attack>.+)-(?P<kind>full|partial)(?:-(?P<joint>\w+?))?_(?P<rest>.*)"
)


def _read(tree: Tree, subset: str) -> Reading:
    part = "R01TTS.0.b" if subset == "b" else "R01TTS.0.a"
    file = f"label_{part}.txt"
    label_file = first_there(tree, [home + file for home in _HOMES])
    if label_file is None:
        raise AsdfError(
            f"{tree.root}: there is no {file}. It lies next to the archive {part}.tgz: put it next "
            f"to the folder {part}."
        )
    recordings = parse_text(tree.lines(label_file), tree.path(label_file))
    if not recordings:
        raise AsdfError(f"{tree.path(label_file)}: no trial in it. Was it copied whole?")
    names = list(recordings)
    labels = [int(not timed.spoofed) for timed in recordings.values()]
    trials = TrialList(names, np.array(labels, np.int8), columns=_columns_of(names))
    trials, notes = with_parts(trials, recordings, names, label_file)
    audio = (label_file.removesuffix(file) + part,)
    trials = with_files(trials, tree, audio, ".wav")
    if subset in ("a", "b"):
        return Reading(trials, audio, notes=notes)
    kinds = trials.columns["kind"]
    chosen = [index for index, kind in enumerate(kinds) if kind in ("-", subset)]
    selected = trials.select(np.array(chosen, np.intp))
    others = frozenset(trials.ids) - frozenset(selected.ids)
    return Reading(selected, audio, others=others, notes=notes)


def _columns_of(names: list[str]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"speaker": [], "attack": [], "kind": [], "joint": []}
    for name in names:
        match = _SPOOF.fullmatch(name)
        rest = match["rest"] if match else name.partition("_")[2]
        columns["speaker"].append(rest.partition("_")[0])
        columns["attack"].append(match["attack"] if match else "-")
        columns["kind"].append(match["kind"] if match else "-")
        columns["joint"].append((match["joint"] if match else "") or "-")
    return columns


LLAMA_PARTIAL_SPOOF = KnownCorpus(
    title="LlamaPartialSpoof",
    homepage="https://zenodo.org/records/14214149",
    licence="see its page",
    needs="R01TTS.0.a.tgz and R01TTS.0.b.tgz unpacked: the folders R01TTS.0.a and R01TTS.0.b, and "
    "next to them label_R01TTS.0.{a,b}.txt",
    folders=("LlamaPartialSpoof", "llamapartialspoof", "LPS", ""),
    marks=tuple(f"{home}label_R01TTS.0.{part}.txt" for home in _HOMES for part in "ab"),
    read=_read,
    subsets=("a", "b", "full", "partial"),
    usual="a",
    published=PUBLISHED["llama-partial-spoof"],
    source="the paper's table; its sums are the lines of the label files",
)
