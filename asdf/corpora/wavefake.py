"""WaveFake (Frank and Schönherr, NeurIPS 2021): speech through vocoders, all of it spoof.

A system's name is that of the corpus that its vocoder was trained on and that of the vocoder, as in
`jsut_multi_band_melgan`; the name of the only text-to-speech system is the other way round.
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
_COLUMNS = ("speaker", "attack", "vocoder", "source", "language")
# The speech that the vocoders were trained on, which is bona fide and may lie next to theirs.
_ORIGINALS = ("ljspeech-1.", "jsut_ver")


def _read(tree: Tree, subset: str) -> Reading:
    # Where there is neither, the tree may be that folder itself.
    home = first_there(tree, (_AUDIO, f"WaveFake/{_AUDIO}")) or ""
    audio = join_name(home, subset)
    ids = []
    columns: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for name in recordings(tree, audio):
        system, slash, _ = name.removeprefix(f"{home}/" if home else "").partition("/")
        if not slash or system.lower().startswith(_ORIGINALS):
            continue
        ids.append(name)
        for column, value in _describe(system).items():
            columns[column].append(value)
    if not ids:
        what = f"of a system {subset!r}" if subset else f"in {_AUDIO}/<system>"
        raise AsdfError(
            f"{tree.root}: no recordings {what}. Is it WaveFake's folder {_AUDIO}, unpacked whole?"
        )
    trials = TrialList(ids, np.zeros(len(ids), np.int8), columns=columns)
    return Reading(trials, audio=(audio,))


def _describe(system: str) -> dict[str, str]:
    """Return the values of the columns for the recordings of a system."""
    parts = system.split("_")
    source = ""
    for corpus in _LANGUAGES:
        if corpus in parts and not source:
            source = corpus
    vocoder = "_".join(part for part in parts if part != source)
    return {
        # Each of the two corpora has one speaker.
        "speaker": source,
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
