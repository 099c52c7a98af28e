"""SpoofCeleb (Jung et al., IEEE Open Journal of Signal Processing, 2025).

VoxCeleb1 is bona fide, and 23 systems were trained on it.
"""

from __future__ import annotations

from dataclasses import replace

from asdf.corpora.known import KnownCorpus, Reading, first_there
from asdf.corpora.protocols import read_from
from asdf.errors import AsdfError
from asdf.trials.trees import Tree

# What the subsets are called in file and folder names.
_NAMES = {"train": ("train",), "dev": ("development", "dev"), "eval": ("evaluation", "eval")}
_HOMES = ("", "spoofceleb/")


def _read(tree: Tree, subset: str) -> Reading:
    names = _NAMES[subset]
    metas = [f"{home}metadata/{name}.csv" for home in _HOMES for name in names]
    meta = first_there(tree, metas)
    if meta is None:
        raise AsdfError(
            f"{tree.root}: there is no metadata/{names[0]}.csv. Is it the folder of SpoofCeleb "
            "that holds metadata and flac?"
        )
    trials = read_from(tree, meta)
    home = meta[: meta.index("metadata/")]
    folders = [f"{home}flac/{name}" for name in names]
    # Without any, the recordings are reported as missing where the distribution has them.
    audio = first_there(tree, folders) or folders[0]
    ids = [f"{audio}/{name}" for name in trials.ids]
    return Reading(replace(trials, ids=ids), audio=(audio,))


SPOOFCELEB = KnownCorpus(
    title="SpoofCeleb",
    homepage="https://jungjee.github.io/spoofceleb",
    licence="CC BY 4.0",
    needs="metadata/{train,development,evaluation}.csv and flac/{train,development,evaluation}",
    folders=("SpoofCeleb", "spoofceleb"),
    marks=("metadata", "spoofceleb/metadata"),
    read=_read,
    subsets=("train", "dev", "eval"),
    usual="eval",
)
