"""WaveFake (Frank and Schönherr, NeurIPS 2021): speech through vocoders, all of it spoof.

A system's name is that of the corpus that its vocoder was trained on and that of the vocoder, as in
`jsut_multi_band_melgan`; of the one text-to-speech system it is the other way round.
"""

from __future__ import annotations

import numpy as np

from asdf.corpora.known import (
    KnownCorpus,
    Reading,
    first_there,
    join_name,
    recordings,
)
from asdf.errors import AsdfError
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

_LANGUAGES = {"ljspeech": "en", "jsut": "ja"}
_AUDIO = "generated_audio"
# The speech that the vocoders were trained on, which is bona fide and may lie beside theirs.
_ORIGINALS = ("ljspeech-1.", "jsut_ver")


def _read(tree: Tree, subset: str) -> Reading:
    home = first_there(tree, (_AUDIO, f"WaveFake/{_AUDIO}")) or ""
    names = recordings(tree, join_name(home, subset))
    depth = home.count("/") + 1 if home else 0
    systems = [name.split("/")[depth] if name.count("/") > depth else "" for name in names]
    systems = ["" if system.lower().startswith(_ORIGINALS) else system for system in systems]
    names = [name for name, system in zip(names, systems, strict=True) if system]
    systems = [system for system in systems if system]
    if not names:
        what = f"of a system {subset!r}" if subset else f"in {_AUDIO}/<system>"
        raise AsdfError(
            f"{tree.root}: no recordings {what}. Is it WaveFake's folder {_AUDIO}, unpacked whole?"
        )
    columns = [_describe(system) for system in systems]
    found = {name: [of[name] for of in columns] for name in columns[0]}
    return Reading(
        TrialList(names, np.zeros(len(names), np.int8), columns=found), (join_name(home, subset),)
    )


def _describe(system: str) -> dict[str, str]:
    source = next((corpus for corpus in _LANGUAGES if corpus in system.split("_")), "")
    vocoder = "_".join(part for part in system.split("_") if part != source)
    return {
        "speaker": source,  # both corpora are of one speaker
        "attack": system,
        "vocoder": vocoder,
        "source": source,
        "language": _LANGUAGES.get(source, ""),
    }


WAVEFAKE = KnownCorpus(
    title="WaveFake",
    homepage="https://zenodo.org/records/5642694",
    licence="see its page",
    needs=f"{_AUDIO}/<system>/*.wav",
    folders=("WaveFake", "wavefake", _AUDIO),
    marks=(_AUDIO, "ljspeech_melgan", "jsut_multi_band_melgan"),
    read=_read,
    subset_of="system",
    published=PUBLISHED["wavefake"],
    source="the data set's datasheet",
)
