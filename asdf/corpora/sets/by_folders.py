"""Corpora that are read by their folders: their locations, and the structure of their paths.

Sources of the layouts, all of them public code that reads the corpora: the protocol scripts of
nii-yamagishilab/AntiDeepfake (CFAD, DFADD, HABLA, CodecFake), MuSAELab/AUDDT and DeepFense's lists
(ODSS), Jessegator/SONAR data_utils.py (SONAR), csun22/Synthetic-Voice-Detection-Vocoder-Artifacts
and code that reads it (LibriSeVoc), lists of FakeAVCeleb's files in several repositories; the data
sheet of WaveFake. Of sets on the Arena's leaderboards in their original distributions: the Arena's
plans (PyAra, XMAD-Bench: folders and counts), a public script that reads CVoiceFake, and code that
reads DEEP-VOICE from Kaggle; other counts are from the card of a system in the Arena. LJSpeech's
own page.

Corpora described by folders and file names: a common reader that follows a pattern.

Invariant: a recording is a trial if and only if its path matches the corpus's pattern; other
recordings are counted in a note, and their classes are never guessed.

Fake-or-Real (Reimao and Tzerpos, SpeD 2019) has four variants; folders are the labels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np

from asdf.corpora.known_corpus import (
    ANTI_DEEPFAKE,
    VCTK,
    KnownCorpus,
    Origin,
    Reading,
    first_there,
    join_name,
    recordings,
)
from asdf.errors import AsdfError
from asdf.facts import Published
from asdf.trials.label_files import cells_of_trial
from asdf.trials.lists import Tree
from asdf.trials.table import TrialCollector
from asdf.trials.trial_list import TrialList

# Group of a pattern that determines the class and is not a column.
_KIND = "kind"
_VIDEOS = (".mp4", ".avi", ".mkv", ".mov")

Groups = Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    """The structure of the paths of a corpus's recordings.

    Attributes:
        homes: Possible folders in the tree; the first one with a matching recording is used, else
            the tree itself.
        pattern: Pattern of a whole path below that folder. Its named groups are the columns.
        bona_fide: Values of the group 'kind', or else 'attack', that mean bona fide; all others are
            spoofs.
        subset_of: Function that returns the subset of a recording from the groups of its path; None
            if the corpus has no subsets.
        columns: Columns with the same value for all recordings.
        renamed: Names of groups in bona fide recordings: {'attack': 'source'} if the folder with a
            spoof's system states a corpus there.
        derived: Function that returns values of `columns` derived from the groups of a path.
    """

    homes: tuple[str, ...]
    pattern: str
    bona_fide: Collection[str]
    subset_of: Callable[[Groups], str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    derived: Callable[[Groups], Mapping[str, str]] | None = None

    def read(self, tree: Tree, subset: str) -> Reading:
        """Read a corpus by its paths.

        Raises:
            AsdfError: no recording matches the layout, or none is in this subset.
        """
        pattern = re.compile(self.pattern)
        recorded = recordings(tree, "")
        is_video = {name: name.lower().endswith(_VIDEOS) for name in recorded}
        sounds = {name[: name.rfind(".")] for name in recorded if not is_video[name]}
        # A video with a separate sound file next to it is skipped.
        names = [
            name for name in recorded if not is_video[name] or name[: name.rfind(".")] not in sounds
        ]
        for start in (*(f"{home}/" for home in self.homes), ""):
            inside = [name for name in names if name.startswith(start)]
            if any(pattern.fullmatch(name, len(start)) for name in inside):
                break
        groups = [name for name in pattern.groupindex if name != _KIND]
        columns = dict.fromkeys([*groups, *self.renamed.values(), *self.columns])
        collector = TrialCollector(tree.root, list(columns))
        others = []
        unmatched = []
        trials = 0
        for name in inside:
            match = pattern.fullmatch(name, len(start))
            if match is None:
                unmatched.append(name)
                continue
            # Optional groups without a match are None.
            of_path = {key: value or "" for key, value in match.groupdict().items()}
            if subset and self.subset_of is not None and self.subset_of(of_path) != subset:
                others.append(name)
                continue
            trials += 1
            label = int(of_path.get(_KIND, of_path.get("attack", "")) in self.bona_fide)
            values = {**self.columns, **of_path}
            values.update({} if self.derived is None else self.derived(of_path))
            if label == 1:
                values.update({ours: of_path[group] for group, ours in self.renamed.items()})
            cells = [values.get(column, "") for column in columns]
            collector.add(trials, name, label, cells_of_trial(label, columns, cells))
        if not trials:
            elsewhere = [*unmatched, *others]
            what = f"of subset {subset!r} " if subset else ""
            example = f", such as {elsewhere[0]}" if elsewhere else ""
            raise AsdfError(
                f"{tree.root}: no recordings {what}found in the corpus's layout; recordings "
                f"elsewhere: {len(elsewhere)}{example}. Was it unpacked without moving its folders?"
            )
        notes = []
        if unmatched:
            notes.append(
                f"recordings outside the corpus's layout, left out: {len(unmatched)}, such as "
                f"{unmatched[0]}"
            )
        # They have their note, and the check of the disk does not report them again.
        others += unmatched
        return Reading(collector.trials(), audio=("",), others=frozenset(others), notes=notes)


_CFAD_VERSIONS = ("clean", "noisy", "codec")
_CFAD_PARTS = ("train", "dev", "test_seen", "test_unseen")
CFAD = KnownCorpus(
    name="cfad",
    title="CFAD (Ma et al., Speech Communication 2024)",
    homepage="https://zenodo.org/records/8122764",
    needs="{clean,noisy,codec}_version/{train,dev,test_seen,test_unseen}_*/{fake,real}_*/<system>",
    folders=("CFAD", "cfad", "FAD"),
    marks=tuple(f"{home}{version}_version" for home in ("", "CFAD/") for version in _CFAD_VERSIONS),
    read=Layout(
        homes=("CFAD",),
        pattern=r"(?P<version>clean|noisy|codec)_version/"
        r"(?P<part>train|dev|test_seen|test_unseen)_\w+/"
        r"(?P<kind>real|fake)_\w+/(?P<attack>[^/]+)/[^/]+",
        bona_fide={"real"},
        subset_of=lambda groups: f"{groups['version']}-{groups['part']}",
        renamed={"attack": "source"},
    ).read,
    subsets=tuple(f"{version}-{part}" for version in _CFAD_VERSIONS for part in _CFAD_PARTS),
    usual="clean-test_unseen",
    origin=Origin(("AISHELL-1", "AISHELL-3", "THCHS-30", "MAGICDATA"), ANTI_DEEPFAKE),
)

DFADD = KnownCorpus(
    name="dfadd",
    title="DFADD (Du et al., SLT 2024)",
    homepage="https://huggingface.co/datasets/isjwdu/DFADD",
    needs="the zips of April 2025 or later: DATASET_<system>/{train,valid,test}, and "
    "DATASET_VCTK_BONAFIDE",
    folders=("DFADD", "dfadd"),
    marks=("DATASET_VCTK_BONAFIDE", "DATASET_MatchaTTS", "DFADD/DATASET_VCTK_BONAFIDE"),
    read=Layout(
        homes=("DFADD",),
        pattern=r"DATASET_(?P<attack>[^/]+)/(?P<subset>train|valid|test)/(?P<speaker>[^/_]+)[^/]*",
        bona_fide={"VCTK_BONAFIDE"},
        subset_of=lambda groups: groups["subset"],
    ).read,
    subsets=("train", "valid", "test"),
    usual="test",
    origin=VCTK,
)

ODSS = KnownCorpus(
    name="odss",
    title="ODSS (Yaroshchuk et al., WIFS 2023)",
    homepage="https://zenodo.org/records/8370669",
    needs="odss.zip unpacked: {natural,fastpitch-hifigan,vits}/<corpus>/<speaker>",
    folders=("ODSS", "odss"),
    marks=("natural", "odss/natural", "ODSS/natural"),
    read=Layout(
        homes=("odss", "ODSS"),
        pattern=r"(?P<attack>natural|fastpitch-hifigan|vits)/(?P<source>[^/]+)/"
        r"(?:(?P<speaker>[^/]+)/)?.+",
        bona_fide={"natural"},
    ).read,
    origin=Origin(("VCTK",), "the folders of its recordings, in DeepFense's list"),
)

HABLA = KnownCorpus(
    name="habla",
    title="HABLA (Tamayo Flórez et al., Interspeech 2023)",
    homepage="https://huggingface.co/datasets/ArturoHurtado7/AntiSpoofing",
    needs="FinalDataset_16khz/{Real,CycleGAN,Diff,StarGAN,TTS,...}/<accent>/<speaker>",
    folders=("HABLA", "habla", "Latin_America_Spanish_anti_spoofing_dataset"),
    marks=("FinalDataset_16khz", "CycleGAN"),
    read=Layout(
        homes=("FinalDataset_16khz",),
        pattern=r"(?P<attack>Real|CycleGAN|Diff|StarGAN|TTS[^/]*)/(?P<accent>[^/]+)/"
        r"(?:(?P<speaker>[^/]+)/)?[^/]+",
        bona_fide={"Real"},
        columns={"language": "es"},
    ).read,
    published={"": Published(80_816)},
    source="counts of its folders in public repositories, which agree",
)

LIBRISEVOC = KnownCorpus(
    name="librisevoc",
    title="LibriSeVoc (Sun et al., CVPR workshops 2023)",
    homepage="https://github.com/csun22/Synthetic-Voice-Detection-Vocoder-Artifacts",
    needs="{gt,diffwave,melgan,parallel_wave_gan,wavegrad,wavenet,wavernn}/*.wav",
    folders=("LibriSeVoc", "librisevoc"),
    marks=("gt", "LibriSeVoc/gt"),
    read=Layout(
        homes=("LibriSeVoc",),
        pattern=r"(?P<attack>gt|diffwave|melgan|parallel_wave_gan|wavegrad|wavenet|wavernn)/"
        r"(?P<speaker>\d+)_[^/]+",
        bona_fide={"gt"},
        columns={"language": "en"},
    ).read,
    published={"": Published(92_407, 13_201)},
    source="counts of its folders in public repositories, which agree",
    origin=Origin(("LibriTTS",), "the README of its repository"),
)

SONAR = KnownCorpus(
    name="sonar",
    title="SONAR (Li et al., 2024)",
    homepage="https://github.com/Jessegator/SONAR",
    needs="SONAR_dataset/{real_samples,OpenAI,FlashSpeech,VoiceBox,xTTS,...}",
    folders=("SONAR_dataset", "SONAR", "sonar"),
    marks=("real_samples", "SONAR_dataset/real_samples", "SONAR/real_samples", "VALLE"),
    read=Layout(
        homes=("SONAR_dataset", "SONAR"),
        pattern=r"(?P<attack>real_samples|OpenAI|FlashSpeech|VoiceBox|xTTS|NaturalSpeech3|VALLE|"
        r"PromptTTS2|AudioGen|SeedTTS|seedtts_files)/.+",
        bona_fide={"real_samples"},
    ).read,
)

CODECFAKE_WU = KnownCorpus(
    name="codecfake-wu",
    title="CodecFake (Wu et al., Interspeech 2024): VCTK through neural codecs",
    homepage="https://huggingface.co/datasets/rogertseng/CodecFake",
    licence="CC BY 4.0",
    needs="processed/<codec>+<speaker>_<number>.wav; all spoof, bona fide is VCTK. The "
    "shards of the hub are read by reader='parquet'",
    folders=("CodecFake", "CodecFake_Wu", "codecfake-wu"),
    marks=("processed",),
    read=Layout(
        homes=("processed",),
        pattern=r"(?:.*/)?(?P<attack>[^/+]+)\+(?P<speaker>[^/_]+)_[^/]+",
        bona_fide=(),
        columns={"language": "en"},
    ).read,
    origin=VCTK,
)

FAKEAVCELEB = KnownCorpus(
    name="fakeavceleb",
    title="FakeAVCeleb, its sound (Khalid et al., NeurIPS 2021)",
    homepage="https://github.com/DASH-Lab/FakeAVCeleb",
    licence="on request; see its page",
    needs="{Real,Fake}Video-{Real,Fake}Audio/<race>/<gender>/<id>/*.mp4, or files "
    "of their sound with the same names",
    folders=("FakeAVCeleb_v1.2", "FakeAVCeleb", "fakeavceleb", "FakeAVCeleb-audio"),
    marks=("RealVideo-RealAudio", "FakeAVCeleb/RealVideo-RealAudio"),
    read=Layout(
        homes=("FakeAVCeleb",),
        pattern=r"(?P<video>Real|Fake)Video-(?P<kind>Real|Fake)Audio/(?P<race>[^/]+)/"
        r"(?P<gender>[^/]+)/"
        r"(?P<speaker>[^/]+)/[^/]+",
        bona_fide={"Real"},
        # The sound of fake videos with real audio is that of real videos, many times over.
        subset_of=lambda groups: f"{groups['video'].lower()}-video",
    ).read,
    subset_of="kind of video",
    origin=Origin(("VoxCeleb2",), "the corpus's paper"),
)


def _describe_wavefake(groups: Groups) -> dict[str, str]:
    """Return the columns that follow from the name of a system.

    It consists of the corpus that its vocoder was trained on and the vocoder, as in
    `jsut_multi_band_melgan`; for the only text-to-speech system, the order is reversed.
    """
    parts = groups["attack"].split("_")
    source = next((corpus for corpus in ("ljspeech", "jsut") if corpus in parts), "")
    return {
        # Each of the two corpora has one speaker.
        "speaker": source,
        "vocoder": "_".join(part for part in parts if part != source),
        "source": source,
        "language": {"ljspeech": "en", "jsut": "ja"}.get(source, ""),
    }


WAVEFAKE = KnownCorpus(
    name="wavefake",
    title="WaveFake",
    homepage="https://zenodo.org/records/5642694",
    needs="generated_audio/<system>/*.wav",
    folders=("WaveFake", "wavefake", "generated_audio"),
    marks=("generated_audio", "ljspeech_melgan", "jsut_multi_band_melgan"),
    read=Layout(
        homes=("generated_audio", "WaveFake/generated_audio"),
        # Excludes the speech that the vocoders were trained on, which may be next to theirs.
        pattern=r"(?P<attack>(?!(?i:ljspeech-1\.|jsut_ver))[^/]+)/.+",
        bona_fide=(),
        subset_of=lambda groups: groups["attack"],
        columns=dict.fromkeys(("speaker", "vocoder", "source", "language"), ""),
        derived=_describe_wavefake,
    ).read,
    subset_of="system",
    published={"": Published(117_985, 0)},
    source="the data set's datasheet",
    origin=Origin(("LJSpeech", "JSUT"), ANTI_DEEPFAKE),
)


PYARA = KnownCorpus(
    name="pyara",
    title="PyAra (Russian)",
    homepage="https://www.kaggle.com/datasets/alep079/pyara",
    licence="CC BY-NC-SA 4.0",
    needs="Real/*.wav, and Fake/*.wav, whose names say the algorithm",
    folders=("PyAra", "pyara", "final_dataset"),
    marks=("Real", "final_dataset.tsv"),
    read=Layout(
        homes=("final_dataset",),
        pattern=r"(?P<kind>Real|Fake)/(?:(?P<attack>alg_\d+)_)?.+",
        bona_fide={"Real"},
        columns={"language": "ru"},
    ).read,
    published={"": Published(201_778, 73_583)},
    source="the Arena's plan of the set",
)

XMAD = KnownCorpus(
    name="xmad",
    title="XMAD-Bench (Ristea et al., 2025)",
    homepage="https://arxiv.org/abs/2506.00462",
    licence="CC BY-NC-SA 4.0",
    needs="<language>/<corpus>/{real,fake}",
    folders=("XMAD", "xmad", "XMAD-Bench", "xmad_bench"),
    read=Layout(
        homes=("XMAD", "XMAD-Bench", "xmad", "xmad_bench"),
        pattern=r"(?P<language>[^/]+)/(?P<source>[^/]+)/(?P<kind>real|fake)/.+",
        bona_fide={"real"},
    ).read,
    published={"": Published(414_858, 207_429)},
    source=(
        "the Arena's plan of the set; 46,773 of the genuine recordings were not distributed, "
        "according to the same"
    ),
)

CVOICEFAKE = KnownCorpus(
    name="cvoicefake",
    title="CVoiceFake, small (SafeEar, CCS 2024)",
    homepage="https://github.com/LetterLiGo/SafeEar",
    needs="{de,en,fr,it,zh-CN}/{Bonafide,<system>_generated}/*.mp3",
    folders=("CVoiceFake_small", "CVoiceFake", "cvoicefake"),
    marks=("de/Bonafide", "en/Bonafide", "CVoiceFake_small"),
    read=Layout(
        homes=("CVoiceFake_small",),
        pattern=r"(?P<language>de|en|fr|it|zh-CN)/(?P<attack>[^/]+)/.+",
        bona_fide={"Bonafide"},
        subset_of=lambda groups: groups["language"],
    ).read,
    subset_of="language",
    published={"": Published(138_136)},
    source="a card of the Arena, of the small version",
)

DEEP_VOICE = KnownCorpus(
    name="deep-voice",
    title="DEEP-VOICE (Bird and Lotfi, 2023)",
    homepage="https://www.kaggle.com/datasets/birdy654/deep-voice-deepfake-voice-recognition",
    needs="KAGGLE/AUDIO/{REAL,FAKE}/*.wav",
    folders=("DEEP-VOICE", "deep-voice", "DeepVoice", "deep-voice-deepfake-voice-recognition"),
    marks=("KAGGLE/AUDIO", "AUDIO/REAL", "REAL"),
    read=Layout(
        homes=("KAGGLE/AUDIO", "AUDIO"), pattern=r"(?P<kind>REAL|FAKE)/.+", bona_fide={"REAL"}
    ).read,
)

LJSPEECH = KnownCorpus(
    name="ljspeech",
    title="LJSpeech 1.1: the genuine speech of WaveFake, as 'wavefake+ljspeech'",
    homepage="https://keithito.com/LJ-Speech-Dataset/",
    licence="public domain",
    needs="LJSpeech-1.1/wavs/*.wav",
    folders=("LJSpeech-1.1", "LJSpeech", "ljspeech"),
    marks=("wavs", "LJSpeech-1.1/wavs"),
    read=Layout(
        homes=("LJSpeech-1.1",),
        pattern=r"(?P<kind>wavs)/.+",
        bona_fide={"wavs"},
        columns={"speaker": "LJ", "language": "en"},
    ).read,
    published={"": Published(13_100, 13_100)},
    source="its page",
    origin=Origin(("LJSpeech",), "its page"),
)


_FOR_SUBSETS = ("training", "validation", "testing")
# Names of a variant's folders in its archives.
_FOR_FOLDERS = {
    "norm": ("for-norm",),
    "2sec": ("for-2sec", "for-2seconds"),
    "rerec": ("for-rerec", "for-rerecorded"),
    "original": ("for-original",),
}


def _for_homes(variant: str) -> list[str]:
    """Return the possible locations of the subsets' folders.

    Archives unpack into one folder, or into two nested ones.
    """
    names = _FOR_FOLDERS[variant]
    return [*names, *(f"{outer}/{inner}" for outer, inner in product(names, names))]


def read_fake_or_real(variant: str, tree: Tree, subset: str) -> Reading:
    """Read a subset of a variant of Fake-or-Real.

    Raises:
        AsdfError: its folder does not exist.
    """
    homes = [*reversed(_for_homes(variant)), ""]
    folder = first_there(tree, (join_name(home, subset) for home in homes))
    if folder is None:
        raise AsdfError(
            f"{tree.root}: there is no folder {_FOR_FOLDERS[variant][0]}/{subset}. It should hold "
            f"{subset}/real and {subset}/fake as for-{variant} is distributed."
        )
    bona_fide = recordings(tree, f"{folder}/real")
    spoof = recordings(tree, f"{folder}/fake")
    names = bona_fide + spoof
    labels = np.repeat(np.array([1, 0], np.int8), [len(bona_fide), len(spoof)])
    columns = {"subset": [subset] * len(names), "variant": [f"for-{variant}"] * len(names)}
    trials = TrialList(names, labels, columns=columns)
    return Reading(trials, audio=(f"{folder}/real", f"{folder}/fake"))


def _fake_or_real(
    name: str, variant: str, published: dict[str, Published] | None = None, source: str = ""
) -> KnownCorpus:
    return KnownCorpus(
        name=name,
        title=f"Fake-or-Real, for-{variant}",
        homepage="https://bil.eecs.yorku.ca/datasets",
        needs=f"{_FOR_FOLDERS[variant][-1]}/{{training,validation,testing}}/{{real,fake}}",
        folders=("FoR", "for", "FakeOrReal", "fake-or-real", "the-fake-or-real-dataset", ""),
        marks=tuple(f"{home}/{subset}" for home in _for_homes(variant) for subset in _FOR_SUBSETS),
        read=partial(read_fake_or_real, variant),
        subsets=_FOR_SUBSETS,
        usual="testing",
        published=published or {},
        source=source,
        origin=Origin(("LJSpeech",), "the corpus's paper"),
    )


FOR_NORM = _fake_or_real(
    "for",
    "norm",
    {
        "training": Published(53_868, 26_941),
        "validation": Published(10_798, 5_400),
        "testing": Published(4_634, 2_264),
    },
    "counts of the folders in public code bases",
)
FOR_2SEC = _fake_or_real("for-2sec", "2sec")
FOR_REREC = _fake_or_real("for-rerec", "rerec")
FOR_ORIGINAL = _fake_or_real("for-original", "original")
