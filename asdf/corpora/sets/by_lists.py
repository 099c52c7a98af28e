"""Corpora that are read by their label files: their locations, and the formats of lines.

Sources of the layouts: public code that reads the corpora, including the protocol scripts of
nii-yamagishilab/AntiDeepfake (Codecfake, DECRO, Deepfake-Eval-2024) and MuSAELab/AUDDT (CtrSVDD,
DiffSSD); the READMEs of xieyuankun/Codecfake, petrichorwq/DECRO-dataset and
SVDDChallenge/CtrSVDD_Utils. If their paths differ, all are tried.
"""

from __future__ import annotations

from asdf.corpora.known_corpus import ANTI_DEEPFAKE, KnownCorpus, Origin, SubsetFiles, Taken
from asdf.corpora.label_lists import Format, Lists, Row
from asdf.facts import Published

_CODECFAKE_TESTS = (*(f"C{number}" for number in range(1, 8)), "A1", "A2", "A3")


def _codecfake_files(subset: str) -> SubsetFiles:
    homes = (f"test/{subset}", subset, f"{subset}_split/{subset}", f"{subset}_split")
    return SubsetFiles(
        (f"label/{subset}.txt", f"Codecfake/label/{subset}.txt"),
        (*homes, f"{subset}_fake", *(f"Codecfake/{home}" for home in homes)),
    )


CODECFAKE_XIE = KnownCorpus(
    name="codecfake-xie",
    title="Codecfake (Xie et al., IEEE/ACM TASLP 2025)",
    homepage="https://zenodo.org/records/13838106",
    licence="CC BY-NC-ND 4.0",
    needs="label/*.txt, train, dev, and C1 to C7 and A1 to A3, also below test",
    folders=("Codecfake", "Codecfake_Xie", "codecfake-xie"),
    marks=("label", "Codecfake/label"),
    read=Lists(
        Format(
            ("utterance", "key", "attack"),
            attacks={str(number): f"F{number:02d}" for number in range(1, 8)},
        ),
        {subset: _codecfake_files(subset) for subset in ("train", "dev", *_CODECFAKE_TESTS)},
        "The folder label comes with the training set; lines are 'F01_SSB13650058.wav fake 1'.",
    ).read,
    subsets=("train", "dev", *_CODECFAKE_TESTS),
    usual="C7",
    published={
        "train": Published(740_747),
        "dev": Published(92_596),
        **{f"C{number}": Published(26_456) for number in range(1, 7)},
        "C7": Published(145_505),
        "A1": Published(8_902),
        "A2": Published(8_902),
        "A3": Published(99_112),
    },
    source="the README of its repository",
    origin=Origin(("VCTK", "LibriTTS", "AISHELL-3"), ANTI_DEEPFAKE),
)

_DECRO_SUBSETS = ("ch_train", "ch_dev", "ch_eval", "en_train", "en_dev", "en_eval")
_DECRO_README = "the README of DECRO's repository"
# Zenodo's archive of the repository unpacks into a folder with the commit in its name.
_DECRO_HOMES = ("", "petrichorwq-DECRO-dataset-6fc9884/", "DECRO-dataset/")


def _decro_files(subset: str) -> SubsetFiles:
    return SubsetFiles(
        tuple(f"{home}{subset}.txt" for home in _DECRO_HOMES),
        tuple(f"{home}{subset}" for home in _DECRO_HOMES),
    )


DECRO = KnownCorpus(
    name="decro",
    title="DECRO (Ba et al., WWW 2023)",
    homepage="https://zenodo.org/records/7603208",
    licence="CC BY 4.0",
    needs="{ch,en}_{train,dev,eval}.txt and folders of the same names",
    folders=("DECRO", "decro", "DECRO-dataset"),
    marks=tuple(f"{home}{subset}.txt" for home in _DECRO_HOMES for subset in _DECRO_SUBSETS),
    read=Lists(
        Format(("speaker", "utterance", "", "attack", "key"), suffix=".wav"),
        {subset: _decro_files(subset) for subset in _DECRO_SUBSETS},
        "It is next to the folder of its recordings.",
    ).read,
    subsets=_DECRO_SUBSETS,
    usual="en_eval",
    published={
        "en_train": Published(22_541, 5_129),
        "en_dev": Published(13_552, 3_049),
        "en_eval": Published(19_190, 4_306),
        "ch_train": Published(26_850, 9_000),
        "ch_dev": Published(18_124, 6_109),
        "ch_eval": Published(18_124, 6_109),
    },
    source="the README of its repository",
    origin=Origin(("VCTK", "AISHELL-1", "AISHELL-3", "MAGICDATA"), ANTI_DEEPFAKE),
    taken={
        "asvspoof19": Taken(
            "DECRO's English bona fide is of ASVspoof 2019 LA, redivided", _DECRO_README
        ),
        "wavefake": Taken("DECRO has spoofs of WaveFake", _DECRO_README),
        "cfad": Taken("DECRO has spoofs of CFAD", _DECRO_README),
    },
)

CTRSVDD = KnownCorpus(
    name="ctrsvdd",
    title="CtrSVDD, singing (Zang et al., Interspeech 2024)",
    homepage="https://zenodo.org/doi/10.5281/zenodo.10467604",
    licence="CC BY-NC-ND 4.0; its bona fide parts have others",
    needs="{train,dev,test}.txt and {train,dev,test}_set; bona fide singing of Oniku, Ofuton, "
    "Kiritan and JVS-MuSiC is cut from these corpora by the scripts of SVDDChallenge/CtrSVDD_Utils",
    folders=("CtrSVDD", "ctrsvdd", "SVDD", "CtrSVDD2024"),
    marks=("train.txt", "dev.txt", "test.txt"),
    read=Lists(
        Format(("source", "speaker", "utterance", "", "attack", "key"), suffix=".flac"),
        {
            subset: SubsetFiles((f"{subset}.txt",), (f"{subset}_set", subset))
            for subset in ("train", "dev", "test")
        },
        "It comes next to the archives of the recordings.",
    ).read,
    subsets=("train", "dev", "test"),
    usual="test",
    published={"test": Published(92_769, 13_596)},
    source="the page of DeepFense's list",
)


def _is_in_diffssd(row: Row, subset: str) -> bool:
    return row["subset"] == subset


def _tail_in_diffssd(name: str) -> str:
    """Return the normalised part of a path after 'generated_speech/' or 'real_speech/'."""
    tail = name.lower()
    for folder in ("generated_speech/", "real_speech/"):
        position = tail.find(folder)
        if position >= 0:
            tail = tail[position:]
    # The list has LJSpeech's recordings in another folder than LJSpeech's own archive.
    return tail.replace("ljspeech-1.1/wavs/", "ljspeech/")


_DIFFSSD_FILE = "train_val_test_splits.csv"
DIFFSSD = KnownCorpus(
    name="diffssd",
    title="DiffSSD (Bhagtani et al., 2024)",
    homepage="https://huggingface.co/datasets/purdueviperlab/diffssd",
    licence="CC BY-NC-ND 4.0",
    needs=f"{_DIFFSSD_FILE}, generated_speech, and real_speech with LJSpeech-1.1 and LibriSpeech, "
    "which come from their own pages",
    folders=("DiffSSD", "diffssd"),
    marks=(_DIFFSSD_FILE, f"DiffSSD/{_DIFFSSD_FILE}"),
    read=Lists(
        Format(
            {
                "filename": "utterance",
                "label": "key",
                "target": "key",
                "method_name": "attack",
                "set": "subset",
            },
            # The list numbers the classes the other way round: 1 is generated.
            keys={"0": 1, "1": 0},
            is_in=_is_in_diffssd,
            # All methods have recordings of the same file names.
            match=_tail_in_diffssd,
        ),
        {
            subset: SubsetFiles((_DIFFSSD_FILE, f"DiffSSD/{_DIFFSSD_FILE}"), ("",))
            for subset in ("train", "val", "test")
        },
        "It comes next to generated_speech.tar.",
    ).read,
    subsets=("train", "val", "test"),
    usual="test",
    origin=Origin(("LibriSpeech", "LJSpeech"), ANTI_DEEPFAKE),
)


def _is_in_deepfake_eval(row: Row, subset: str) -> bool:
    return subset == "all" or row["subset"].lower() == subset


DEEPFAKE_EVAL_2024 = KnownCorpus(
    name="deepfake-eval-2024",
    title="Deepfake-Eval-2024, its audio (Chandra et al., 2025)",
    homepage="https://huggingface.co/datasets/nuriachandra/Deepfake-Eval-2024",
    licence="on request; see its page",
    needs="audio-metadata-publish.csv and audio-data",
    folders=("Deepfake-Eval-2024", "Deepfake_Eval_2024", "deepfake-eval-2024"),
    marks=("audio-metadata-publish.csv",),
    read=Lists(
        Format(
            {"Filename": "utterance", "Ground Truth": "key", "Finetuning Set": "subset"},
            # Recordings that the corpus itself calls neither real nor fake.
            keys={"unknown": None},
            is_in=_is_in_deepfake_eval,
        ),
        {
            subset: SubsetFiles(("audio-metadata-publish.csv",), ("audio-data",))
            for subset in ("train", "test", "all")
        },
        "It is next to the folder audio-data.",
    ).read,
    subsets=("train", "test", "all"),
    usual="test",
)
