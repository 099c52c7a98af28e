"""ADD 2022 and 2023, the challenges of audio deepfake detection in Mandarin.

Track 2 of both concerns parts of recordings and is not supported here. The names of label files and
folders vary between copies, and all known ones are tried: from the protocol scripts of
nii-yamagishilab/AntiDeepfake (2023), the Arena's pages of its ADD sets, and several public
repositories that read them. For track 3 of 2023 the paths of train and dev are by analogy; public
code takes 0 for genuine.
"""

from __future__ import annotations

from asdf.corpora.known_corpus import KnownCorpus, Origin, SubsetFiles
from asdf.corpora.label_lists import Format, Lists

_AISHELL_3 = Origin(("AISHELL-3",), "the Arena's pages of the ADD sets")
_TWO_COLUMNS = Format(("utterance", "key"))

_ADD22_HOMES = ("", "ADD_train_dev/", "ADD_train_dev/ADD_train_dev/", "ADD2022/ADD_train_dev/")


def _add22_training(subset: str) -> SubsetFiles:
    return SubsetFiles(
        tuple(f"{home}label/{subset}_label.txt" for home in reversed(_ADD22_HOMES)),
        tuple(f"{home}{subset}" for home in reversed(_ADD22_HOMES)),
    )


_ADD22 = Lists(
    _TWO_COLUMNS,
    {
        "train": _add22_training("train"),
        "dev": _add22_training("dev"),
        "track1": SubsetFiles(
            (
                *("track1test/label.txt", "track1_label.txt", "label/track1_label.txt"),
                *("eval_track1/label.txt", "track1test/track1_label.txt"),
            ),
            ("track1test/wav", "track1test", "eval_track1/wav", "eval_track1"),
        ),
        "track3-r1": SubsetFiles(
            (
                *("track3test/track3_R1_label.txt", "track3_R1_label.txt"),
                *("add22track31test/track3_R1_label.txt", "label/track3_R1_label.txt"),
            ),
            ("track3test/wav", "track3test", "add22track31test/track3test"),
        ),
        "track3-r2": SubsetFiles(
            (
                *("ADD2022track3.2_eval_R2/track3_R2_label.txt", "track3_R2_label.txt"),
                "label/track3_R2_label.txt",
            ),
            ("ADD2022track3.2_eval_R2/wav", "track3R2/wav", "wav"),
        ),
    },
    "Lines are 'ADD_T_00000000.wav genuine'. Put it next to the folder of its recordings.",
)
ADD22 = KnownCorpus(
    name="add22",
    title="ADD 2022, tracks 1 and 3.2 (Yi et al., ICASSP 2022)",
    homepage="https://zenodo.org/records/10843991 (track 1), "
    "https://zenodo.org/records/12188055 (track 3)",
    licence="CC BY-NC-ND 4.0",
    needs="ADD_train_dev/{label/{train,dev}_label.txt,train,dev}; track1test and its label.txt; "
    "track3test and track3_R1_label.txt; ADD2022track3.2_eval_R2",
    folders=("ADD2022", "add2022", "ADD22"),
    marks=(
        *("ADD_train_dev", "track1test", "eval_track1", "track3test"),
        *("ADD2022track3.2_eval_R2", "label", "add22track31test"),
    ),
    read=_ADD22.read,
    subsets=tuple(_ADD22.files),
    usual="track1",
    origin=_AISHELL_3,
)


def _add23_files(track: str, *folders: str) -> SubsetFiles:
    homes = []
    for folder in folders:
        homes += [f"{track}/{folder}", f"ADD2023/{track}/{folder}", folder]
    return SubsetFiles(
        tuple(f"{home}/label.txt" for home in homes),
        tuple(f"{home}{inner}" for home in homes for inner in ("/wav", "")),
    )


_ADD23 = Lists(
    _TWO_COLUMNS,
    {
        "train": _add23_files("Track1.2", "train"),
        "dev": _add23_files("Track1.2", "dev"),
        "test-r1": _add23_files("Track1.2", "testR1", "test"),
        "test-r2": _add23_files("Track1.2", "testR2", "test2"),
    },
    "Lines are 'ADD2023_T1.2_T_00000000.wav genuine'.",
)
ADD23 = KnownCorpus(
    name="add23",
    title="ADD 2023, track 1.2 (Yi et al., DADA workshop 2023)",
    homepage="https://zenodo.org/records/12175884 (R1), https://zenodo.org/records/12176326 (R2)",
    licence="CC BY-NC-ND 4.0",
    needs="Track1.2/{train,dev,testR1,testR2}/{label.txt,wav}",
    folders=("ADD2023", "add2023", "ADD23"),
    marks=("Track1.2", "ADD2023/Track1.2"),
    read=_ADD23.read,
    subsets=tuple(_ADD23.files),
    usual="test-r2",
    origin=_AISHELL_3,
)

ADD23_TRACK3 = KnownCorpus(
    name="add23-track3",
    title="ADD 2023, track 3: which algorithm made it",
    homepage="https://arxiv.org/abs/2305.13774",
    licence="CC BY-NC-ND 4.0",
    needs="Track3/{train,dev,test}/{label.txt,wav}",
    folders=("ADD2023", "add2023", "ADD23", "ADD2023_Track3"),
    marks=("Track3", "ADD2023/Track3", "test/label.txt"),
    read=Lists(
        Format(
            ("utterance", "key"),
            keys={"0": 1, **{str(number): 0 for number in range(1, 10)}},
            attacks={str(number): f"algorithm-{number}" for number in range(1, 10)},
        ),
        {subset: _add23_files("Track3", subset) for subset in ("train", "dev", "test")},
        "Lines are a recording and the number of its algorithm, 0 for none.",
    ).read,
    subsets=("train", "dev", "test"),
    usual="test",
    origin=_AISHELL_3,
)
