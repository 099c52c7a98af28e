"""Corpora that are read by their label files: their locations, and the formats of lines.

Sources of the layouts: public code that reads the corpora, including the protocol scripts of
nii-yamagishilab/AntiDeepfake (Codecfake, DECRO, Deepfake-Eval-2024, ADD 2023) and MuSAELab/AUDDT
(CtrSVDD, DiffSSD); the READMEs of xieyuankun/Codecfake, petrichorwq/DECRO-dataset and
SVDDChallenge/CtrSVDD_Utils. If their paths differ, all are tried.

ADD 2022 and 2023 are challenges of audio deepfake detection in Mandarin. Track 2 of both concerns
parts of recordings and is not supported here. The names of their files vary between copies; known
ones are also from the Arena's pages of its ADD sets, and several public repositories that read
them. For track 3 of 2023 the paths of train and dev are by analogy; public code takes 0 for
genuine.

In-the-Wild (Müller et al., Interspeech 2022) is politicians and celebrities, and imitations; in
SpoofCeleb (Jung et al., IEEE Open Journal of Signal Processing, 2025), VoxCeleb1 is bona fide, and
23 systems were trained on it. AT-ADD and ESDD2 (both 2026) are speech with other sounds, labelled
by synthetic components: the READMEs and loaders of xieyuankun/AT-ADD-Baseline (config.py,
dataset.py) and XuepingZhang/ESDD2-Baseline (conf.py, libs/dataset.py), which have no counts.
"""

from __future__ import annotations

from asdf.corpora.known_corpus import ANTI_DEEPFAKE, KnownCorpus, Origin, Taken
from asdf.corpora.label_lists import ALL, Lists, SubsetFiles
from asdf.facts import PUBLISHED, Published
from asdf.trials.trial_list import UNLABELLED

_CODECFAKE_TESTS = (*(f"C{number}" for number in range(1, 8)), "A1", "A2", "A3")


def _codecfake_files(subset: str) -> SubsetFiles:
    folders = (f"test/{subset}", subset, f"{subset}_split/{subset}", f"{subset}_split")
    return SubsetFiles((f"label/{subset}.txt",), (*folders, f"{subset}_fake"))


CODECFAKE_XIE = KnownCorpus(
    name="codecfake-xie",
    title="Codecfake (Xie et al., IEEE/ACM TASLP 2025)",
    homepage="https://zenodo.org/records/13838106",
    licence="CC BY-NC-ND 4.0",
    needs="label/*.txt, train, dev, and C1 to C7 and A1 to A3, also below test",
    folders=("Codecfake", "Codecfake_Xie", "codecfake-xie"),
    marks=("label", "Codecfake/label"),
    read=Lists(
        {subset: _codecfake_files(subset) for subset in ("train", "dev", *_CODECFAKE_TESTS)},
        "The folder label comes with the training set; lines are 'F01_SSB13650058.wav fake 1'.",
        ("utterance", "key", "attack"),
        attacks={str(number): f"F{number:02d}" for number in range(1, 8)},
        homes=("", "Codecfake/"),
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


DECRO = KnownCorpus(
    name="decro",
    title="DECRO (Ba et al., WWW 2023)",
    homepage="https://zenodo.org/records/7603208",
    licence="CC BY 4.0",
    needs="{ch,en}_{train,dev,eval}.txt and folders of the same names",
    folders=("DECRO", "decro", "DECRO-dataset"),
    marks=tuple(f"{home}{subset}.txt" for home in _DECRO_HOMES for subset in _DECRO_SUBSETS),
    read=Lists(
        {subset: SubsetFiles((f"{subset}.txt",), (subset,)) for subset in _DECRO_SUBSETS},
        "It is next to the folder of its recordings.",
        ("speaker", "utterance", "", "attack", "key"),
        homes=_DECRO_HOMES,
        suffix=".wav",
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
        {
            subset: SubsetFiles((f"{subset}.txt",), (f"{subset}_set", subset))
            for subset in ("train", "dev", "test")
        },
        "It comes next to the archives of the recordings.",
        ("source", "speaker", "utterance", "", "attack", "key"),
        suffix=".flac",
    ).read,
    subsets=("train", "dev", "test"),
    usual="test",
    published={"test": Published(92_769, 13_596)},
    source="the page of DeepFense's list",
)


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
        dict.fromkeys(
            ("train", "val", "test"),
            SubsetFiles((_DIFFSSD_FILE, f"DiffSSD/{_DIFFSSD_FILE}"), ("",)),
        ),
        "It comes next to generated_speech.tar.",
        {
            "filename": "utterance",
            "label": "key",
            "target": "key",
            "method_name": "attack",
            "set": "subset",
        },
        # The list numbers the classes the other way round: 1 is generated.
        keys={"0": 1, "1": 0},
        # All methods have recordings of the same file names.
        identify=_tail_in_diffssd,
        subset_column="subset",
    ).read,
    subsets=("train", "val", "test"),
    usual="test",
    origin=Origin(("LibriSpeech", "LJSpeech"), ANTI_DEEPFAKE),
)


DEEPFAKE_EVAL_2024 = KnownCorpus(
    name="deepfake-eval-2024",
    title="Deepfake-Eval-2024, its audio (Chandra et al., 2025)",
    homepage="https://huggingface.co/datasets/nuriachandra/Deepfake-Eval-2024",
    licence="on request; see its page",
    needs="audio-metadata-publish.csv and audio-data",
    folders=("Deepfake-Eval-2024", "Deepfake_Eval_2024", "deepfake-eval-2024"),
    marks=("audio-metadata-publish.csv",),
    read=Lists(
        dict.fromkeys(
            ("train", "test", ALL), SubsetFiles(("audio-metadata-publish.csv",), ("audio-data",))
        ),
        "It is next to the folder audio-data.",
        {"Filename": "utterance", "Ground Truth": "key", "Finetuning Set": "subset"},
        # Recordings that the corpus itself calls neither real nor fake.
        keys={"unknown": UNLABELLED},
        subset_column="subset",
    ).read,
    subsets=("train", "test", ALL),
    usual="test",
)


_AISHELL_3 = Origin(("AISHELL-3",), "the Arena's pages of the ADD sets")
_TWO_COLUMNS = ("utterance", "key")

_ADD22_HOMES = ("", "ADD_train_dev/", "ADD_train_dev/ADD_train_dev/", "ADD2022/ADD_train_dev/")


def _add22_training(subset: str) -> SubsetFiles:
    return SubsetFiles(
        tuple(f"{home}label/{subset}_label.txt" for home in reversed(_ADD22_HOMES)),
        tuple(f"{home}{subset}" for home in reversed(_ADD22_HOMES)),
    )


_ADD22 = Lists(
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
    _TWO_COLUMNS,
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
    {
        "train": _add23_files("Track1.2", "train"),
        "dev": _add23_files("Track1.2", "dev"),
        "test-r1": _add23_files("Track1.2", "testR1", "test"),
        "test-r2": _add23_files("Track1.2", "testR2", "test2"),
    },
    "Lines are 'ADD2023_T1.2_T_00000000.wav genuine'.",
    _TWO_COLUMNS,
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
        {subset: _add23_files("Track3", subset) for subset in ("train", "dev", "test")},
        "Lines are a recording and the number of its algorithm, 0 for none.",
        _TWO_COLUMNS,
        keys={"0": 1, **dict.fromkeys("123456789", 0)},
        of_key={number: {"attack": f"algorithm-{number}"} for number in "123456789"},
    ).read,
    subsets=("train", "dev", "test"),
    usual="test",
    origin=_AISHELL_3,
)


SPOOFCELEB = KnownCorpus(
    name="spoofceleb",
    title="SpoofCeleb",
    homepage="https://jungjee.github.io/spoofceleb",
    licence="CC BY 4.0",
    needs="metadata/{train,development,evaluation}.csv and flac/{train,development,evaluation}",
    folders=("SpoofCeleb", "spoofceleb"),
    marks=("metadata", "spoofceleb/metadata"),
    read=Lists(
        {
            "train": SubsetFiles(("metadata/train.csv",), ("flac/train",)),
            "dev": SubsetFiles(
                ("metadata/development.csv", "metadata/dev.csv"), ("flac/development", "flac/dev")
            ),
            "eval": SubsetFiles(
                ("metadata/evaluation.csv", "metadata/eval.csv"), ("flac/evaluation", "flac/eval")
            ),
        },
        "Is it the folder of SpoofCeleb that holds metadata and flac?",
        homes=("", "spoofceleb/"),
        has_paths=True,
    ).read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    origin=Origin(("VoxCeleb1",), ANTI_DEEPFAKE),
)

_WILD_FOLDER = "release_in_the_wild"
IN_THE_WILD = KnownCorpus(
    name="in-the-wild",
    title="In-the-Wild",
    homepage="https://deepfake-total.com/in_the_wild",
    licence="Apache 2.0",
    needs=f"release_in_the_wild.zip unpacked: {_WILD_FOLDER}/meta.csv and the recordings next to "
    "it",
    folders=(_WILD_FOLDER, "in_the_wild", "In-the-Wild", "InTheWild", "in-the-wild", "itw"),
    marks=("meta.csv", f"{_WILD_FOLDER}/meta.csv"),
    read=Lists(
        {"": SubsetFiles(("meta.csv",), ("",))},
        f"Unpack release_in_the_wild.zip there, so that there is {_WILD_FOLDER}/meta.csv.",
        homes=("", f"{_WILD_FOLDER}/"),
        has_paths=True,
    ).read,
    published=PUBLISHED["in-the-wild"],
    source="the corpus's meta.csv",
)

_AT_ADD_SUBSETS = ("train", "dev", "eval")


def _at_add(number: int, columns: dict[str, str], what: str) -> KnownCorpus:
    track = f"T{number}"
    lists = Lists(
        {subset: SubsetFiles((f"label/{subset}.csv",), (subset,)) for subset in _AT_ADD_SUBSETS},
        f"Labels are in {track}/label: train.csv and dev.csv, and eval.csv where it is published.",
        columns,
        homes=(f"{track}/", ""),
    )
    return KnownCorpus(
        name=f"at-add-track{number}",
        title=f"AT-ADD 2026, track {number}: {what}",
        homepage=f"https://huggingface.co/datasets/xieyuankun/AT-ADD-Track{number}",
        licence="on registration; see its page",
        needs=f"{track}/{{train,dev,eval}}/*.wav and {track}/label/{{train,dev}}.csv",
        folders=("atadd", "AT-ADD", "at-add", f"AT-ADD-Track{number}"),
        marks=(f"{track}/label", "label"),
        read=lists.read,
        subsets=_AT_ADD_SUBSETS,
        usual="eval",
    )


AT_ADD_TRACK1 = _at_add(1, {"name": "utterance", "label": "key"}, "speech")
AT_ADD_TRACK2 = _at_add(
    2, {"name": "utterance", "label": "key", "type": "type"}, "speech, sound, singing and music"
)

# The nature of speech and surroundings for each label; a spoofed one of them means spoof.
_COMPONENTS = {
    "original": ("bonafide", "bonafide"),
    "bonafide_bonafide": ("bonafide", "bonafide"),
    "spoof_bonafide": ("spoof", "bonafide"),
    "bonafide_spoof": ("bonafide", "spoof"),
    "spoof_spoof": ("spoof", "spoof"),
}
_ESDD2_LISTS = {
    "train": "development/metadata/train.csv",
    "val": "development/metadata/val.csv",
    "eval": "eval/metadata/eval.csv",
    "test": "test/metadata/test.csv",
}
ESDD2 = KnownCorpus(
    name="esdd2",
    title="ESDD2 (ICME 2026), CompSpoof V2: speech and surroundings, each genuine or synthetic",
    homepage="https://huggingface.co/datasets/XuepingZhang/ESDD2-CompSpoof-V2",
    needs="development/metadata/{train,val}.csv, eval/metadata/eval.csv, test/metadata/test.csv, "
    "and the recordings of their column audio_path",
    folders=("CompSpoofV2", "ESDD2-CompSpoof-V2", "CompSpoof-V2", "ESDD2"),
    marks=("development/metadata", "eval/metadata", "test/metadata"),
    read=Lists(
        {subset: SubsetFiles((name,), ("",)) for subset, name in _ESDD2_LISTS.items()},
        "It comes with the data set: CompSpoofV2/development, eval and test.",
        {"audio_path": "utterance", "label": "key"},
        # The truth of some lines is not published.
        keys={
            "-": UNLABELLED,
            **{label: int("spoof" not in natures) for label, natures in _COMPONENTS.items()},
        },
        of_key={
            label: {"component": label, "speech": speech, "environment": environment}
            for label, (speech, environment) in _COMPONENTS.items()
        },
        has_paths=True,
    ).read,
    subsets=tuple(_ESDD2_LISTS),
    usual="eval",
)
