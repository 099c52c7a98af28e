"""The M-AILABS Speech Dataset: audiobooks read by volunteers, all bona fide.

The paths are `<language>/by_book/{female,male}/<speaker>/<book>/wavs/*.wav`; books that several
people read are in `<language>/by_book/mix/...`, with unknown speakers.
"""

from __future__ import annotations

import numpy as np

from asdf.corpora.known_corpus import KnownCorpus, Origin, Reading, is_there, recordings
from asdf.errors import AsdfError
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

LANGUAGES = ("de_DE", "en_UK", "en_US", "es_ES", "fr_FR", "it_IT", "pl_PL", "ru_RU", "uk_UK")
_COLUMNS = ("speaker", "attack", "language", "gender", "book")


def _read(tree: Tree, subset: str) -> Reading:
    languages = [subset]
    if not subset:
        languages = [name for name in LANGUAGES if is_there(tree, f"{name}/by_book")]
    ids: list[str] = []
    columns: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for language in languages:
        for name in recordings(tree, f"{language}/by_book"):
            values = _describe(name)
            if values is None:
                continue
            ids.append(name)
            for column, value in values.items():
                columns[column].append(value)
    if not ids:
        what = subset or "<language>"
        raise AsdfError(
            f"{tree.root}: no recordings {what}/by_book/<gender>/<speaker>/<book>/wavs/*.wav. The "
            f"archives of its languages ({', '.join(LANGUAGES)}) each unpack into a folder of that "
            "name."
        )
    trials = TrialList(ids, np.ones(len(ids), np.int8), columns=columns)
    return Reading(trials, audio=languages, notes=_find_missing(tree, ids))


def _describe(name: str) -> dict[str, str] | None:
    """Return the values of the columns for a recording; None if it is outside of a book."""
    folders = [part for part in name.split("/")[:-1] if part != "wavs"]
    if len(folders) < 4:  # language, by_book, gender, book; below mix without a speaker
        return None
    language, _, gender, *inner = folders
    return {
        "speaker": "" if gender == "mix" else inner[0],
        "attack": "-",
        "language": language,
        "gender": gender,
        "book": inner[-1],
    }


def _find_missing(tree: Tree, ids: list[str]) -> list[str]:
    """Record the recordings in the books' metadata.csv (`name|text|text`) that do not exist."""
    books: dict[str, set[str]] = {}
    for name in ids:
        folder, file = name.rsplit("/", 1)
        stem = file.rsplit(".", 1)[0]
        books.setdefault(folder.removesuffix("/wavs"), set()).add(stem)
    notes = []
    for book, existing in books.items():
        path = f"{book}/metadata.csv"
        if not is_there(tree, path):
            continue
        named = set()
        for _, line in tree.lines(path):
            named.add(line.split("|")[0].strip().removesuffix(".wav"))
        # Not vice versa: a recording without a transcript is a trial like any other.
        missing = named - existing
        if missing:
            notes.append(
                f"{path} names recordings that are not there: {len(missing)}, such as "
                f"{min(missing)}"
            )
    return notes


M_AILABS = KnownCorpus(
    name="m-ailabs",
    title="M-AILABS Speech Dataset",
    homepage="https://www.caito.de/2019/01/03/the-m-ailabs-speech-dataset/",
    licence="its own, free of charge; see its page",
    needs="<language>/by_book/<gender>/<speaker>/<book>/wavs/*.wav; languages such as en_US, de_DE",
    folders=("M-AILABS", "m-ailabs", "m_ailabs", "mailabs", "M-AILABS_Speech_Dataset", ""),
    marks=tuple(f"{language}/by_book" for language in LANGUAGES),
    read=_read,
    subset_of="language",
    origin=Origin(("M-AILABS",), "itself"),
)
