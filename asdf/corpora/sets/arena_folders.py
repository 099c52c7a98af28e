"""Sets on the Arena's leaderboards in their original distributions, and LJSpeech.

Sources of the layouts: the Arena's plans of its sets (PyAra, XMAD-Bench: folders and counts), a
public script that reads CVoiceFake, and code that reads DEEP-VOICE from Kaggle; LJSpeech's own
page. Other counts are from the card of a system in the Arena.
"""

from __future__ import annotations

from asdf.corpora.known_corpus import KnownCorpus, Origin
from asdf.corpora.path_layouts import Layout
from asdf.facts import Published

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
    marks=(),
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
