"""LlamaPartialSpoof (Luong et al., ICASSP 2025): LibriTTS, sentences changed by a language model.

R01TTS.0.a has bona fide, fully spoofed and partially spoofed recordings whose parts cross-fade;
R01TTS.0.b has only partially spoofed ones, cut and pasted or overlapped.
"""

from __future__ import annotations

import re

import numpy as np

from asdf.corpora.known import KnownCorpus, Reading, find_labels, with_files
from asdf.corpora.timed_parts import read_parts
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree

_HOMES = ("", "LlamaPartialSpoof/")
# dev01-yourtts-partial-cf_8842_304647_000034_000001: the system, how much of it is spoofed, and
# how the parts are joined; then the speaker.
_SPOOF = re.compile(
    r"dev01-(?P<attack>.+)-(?P<kind>full|partial)(?:-(?P<joint>\w+?))?_(?P<rest>.*)"
)


def _read(tree: Tree, subset: str) -> Reading:
    part = "R01TTS.0.b" if subset == "b" else "R01TTS.0.a"
    file = f"label_{part}.txt"
    advice = f"It lies next to the archive {part}.tgz: put it next to the folder {part}."
    label_file = find_labels(tree, [home + file for home in _HOMES], advice)
    trials, notes = read_parts(tree, label_file, _columns_of)
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
