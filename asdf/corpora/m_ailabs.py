"""The M-AILABS Speech Dataset: audiobooks read by volunteers, all bona fide.

`<language>/by_book/{female,male}/<speaker>/<book>/wavs/*.wav`; books that several people read lie in
`<language>/by_book/mix/...`, and there nobody says who speaks.
"""

from __future__ import annotations

import numpy as np

from asdf.corpora.known import KnownCorpus, Reading, is_there, recordings
from asdf.errors import AsdfError
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

LANGUAGES = ("de_DE", "en_UK", "en_US", "es_ES", "fr_FR", "it_IT", "pl_PL", "ru_RU", "uk_UK")


def _read(tree: Tree, subset: str) -> Reading:
    ids: list[str] = []
    columns: dict[str, list[str]] = {
        "speaker": [],
        "attack": [],
        "language": [],
        "gender": [],
        "book": [],
    }
    languages = (
        [subset] if subset else [one for one in LANGUAGES if is_there(tree, f"{one}/by_book")]
    )
    for name in (
        name for language in languages for name in recordings(tree, f"{language}/by_book")
    ):
        language, _, *parts = (part for part in name.split("/")[:-1] if part != "wavs")
        if len(parts) < 2:
            continue
        gender, *folders = parts
        ids.append(name)
        columns["speaker"].append("" if gender == "mix" else folders[0])
        columns["attack"].append("-")
        columns["language"].append(language)
        columns["gender"].append(gender)
        columns["book"].append(folders[-1])
    if not ids:
        what = subset or "<language>"
        raise AsdfError(
            f"{tree.root}: no recordings {what}/by_book/<gender>/<speaker>/<book>/wavs/*.wav. The archives of its "
            f"languages ({', '.join(LANGUAGES)}) each unpack into a folder of that name."
        )
    notes = _promised(tree, ids)
    return Reading(
        TrialList(ids, np.ones(len(ids), np.int8), columns=columns), languages, notes=notes
    )


def _promised(tree: Tree, ids: list[str]) -> list[str]:
    """What the metadata.csv of the books (`name|text|text`) names and is not there."""
    notes = []
    books: dict[str, set[str]] = {}
    for name in ids:
        folder, file = name.rsplit("/", 1)
        books.setdefault(folder.removesuffix("/wavs"), set()).add(file.rsplit(".", 1)[0])
    for book, there in books.items():
        if is_there(tree, f"{book}/metadata.csv"):
            lines = tree.lines(f"{book}/metadata.csv")
            named = {line.split("|")[0].strip().removesuffix(".wav") for _, line in lines}
            if gone := named - there:
                notes.append(
                    f"{book}/metadata.csv names recordings that are not there: {len(gone)}, such as {min(gone)}"
                )
    return notes


M_AILABS = KnownCorpus(
    title="M-AILABS Speech Dataset",
    homepage="https://www.caito.de/2019/01/03/the-m-ailabs-speech-dataset/",
    licence="its own, free of charge; see its page",
    needs="<language>/by_book/<gender>/<speaker>/<book>/wavs/*.wav; languages such as en_US, de_DE",
    folders=("M-AILABS", "m-ailabs", "m_ailabs", "mailabs", "M-AILABS_Speech_Dataset", ""),
    marks=tuple(f"{language}/by_book" for language in LANGUAGES),
    read=_read,
    subset_of="language",
)
