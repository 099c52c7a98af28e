"""Published detectors with facts from their sources only.

Invariant: each fact is in the source that its entry names; a fact that no source states is None,
and shown as unknown. None of the numbers was measured with ASDF.

Sources, read in November 2026: the READMEs and licences of the named repositories on GitHub; for
AntiDeepfake `protocols/README.md` and the table of EERs in its README up to 16 October 2025
(commit dca72e0 removed it when the authors corrected how they compute EERs); the model cards and
result files of the Speech Anti-Spoofing Arena for In-the-Wild; the model cards of lab260's
repositories on the hub, and of SpeechAntiSpoofingBenchmarks/WhisperMFCCMesoNet; configurations in
the package deepfense 0.2.2; digests are of the files in clovaai/aasist at commit a04c986, and in
eurecom-asp/RawGAT-ST-antispoofing at commit e3b049f.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.hub.hub_detectors import (
    KnownDetector,
    PublishedEer,
    classifier_detectors,
    df_arena_detectors,
)
from asdf.hub.hub_names import PREFIX, SUFFIXES, HubName
from asdf.runs.files import sha256_of
from asdf.settings.front_end_values import BUNDLE
from asdf.shipped import SMALL
from asdf.text import did_you_mean, from_here

NOT_STATED = "not stated"
"""Text in the table for training sets that no source states."""

_ORGANISATION = "nii-yamagishilab"
_ANTI_DEEPFAKE_SETS = (
    "ADD2023",
    "DEEP-VOICE",
    "FakeOrReal",
    "FakeOrReal-norm",
    "In-the-Wild",
    "Deepfake-Eval-2024",
)
# Name, parameters, EERs on these sets, EER on In-the-Wild from the Arena (None: not found).
_ANTI_DEEPFAKE: tuple[tuple[str, str, tuple[float, ...], float | None], ...] = (
    ("wav2vec-small", "95 M", (13.02, 9.80, 21.94, 17.85, 4.24, 33.33), 5.31),
    ("wav2vec-large", "317 M", (13.25, 4.53, 0.63, 0.97, 1.91, 33.38), 2.89),
    ("mms-300m", "317 M", (7.93, 2.27, 1.35, 5.92, 2.90, 32.80), 4.83),
    ("mms-1b", "965 M", (9.06, 2.56, 1.22, 1.73, 1.82, 27.70), 3.30),
    ("xls-r-1b", "965 M", (5.39, 2.52, 5.74, 12.14, 1.35, 26.76), 4.24),
    ("xls-r-2b", "2.2 B", (4.67, 2.30, 2.62, 1.65, 1.23, 27.77), 2.81),
    ("hubert-xlarge", "964 M", (18.90, 5.67, 2.49, 3.17, 5.23, 34.08), 3.46),
)
# The same networks trained without data augmentation.
_ANTI_DEEPFAKE_NDA: tuple[tuple[str, str, tuple[float, ...], float | None], ...] = (
    ("wav2vec-small", "95 M", (19.41, 16.22, 1.05, 6.47, 4.65, 31.97), 4.95),
    ("wav2vec-large", "317 M", (12.67, 5.01, 0.80, 1.44, 2.25, 30.05), 2.94),
    ("mms-300m", "317 M", (11.22, 3.04, 0.46, 2.71, 2.00, 31.38), 3.77),
    ("mms-1b", "965 M", (9.46, 2.27, 0.89, 1.10, 1.86, 27.55), 3.83),
    ("xls-r-1b", "965 M", (6.58, 2.96, 3.16, 10.91, 1.36, 26.17), 3.95),
    ("xls-r-2b", "2.2 B", (6.84, 2.63, 1.18, 1.73, 1.31, 25.78), 2.99),
    ("hubert-xlarge", "964 M", (35.34, 14.87, 3.67, 15.52, 17.99, 47.72), None),
)
_BEFORE_CORRECTION = (
    "by the authors, before they corrected how they compute EERs (October 2025); the corrected one "
    "differs slightly"
)
_BY_THE_ARENA = "by the Speech Anti-Spoofing Arena, all 31,779 trials; the score is the real logit"
_ANTI_DEEPFAKE_TRAINING = (
    "post-trained on 56,000 h of genuine and 18,000 h of fake or processed speech in over 100 "
    "languages"
)
_ANTI_DEEPFAKE_OVERLAP = (
    "ASVspoof 2019 LA, 2021 LA, 2021 DF and 5, MLAAD, SpoofCeleb, WaveFake, Codecfake, CodecFake, "
    "CFAD, CVoiceFake, DECRO, DFADD, Diffuse or Confuse, DiffSSD, DSD, HABLA, VoiceMOS and vocoded "
    "LibriTTS and VoxCeleb2 are training data, as are AIShell3, CNCeleb2, FLEURS, LibriTTS, "
    "LJSpeech, MLS and VoxCeleb2: EERs on these, and on sets made from them, say nothing about new "
    "recordings"
)
# By the suffix of the name.
_AUGMENTED = {
    "": ("with RawBoost", "RawBoost"),
    "-nda": ("without data augmentation", "no augmentation"),
}


def _make_anti_deepfake(
    row: tuple[str, str, tuple[float, ...], float | None], suffix: str
) -> KnownDetector:
    size, parameters, percents, by_the_arena = row
    name = f"{_ORGANISATION}/{size}-anti-deepfake{suffix}"
    eers = []
    for evaluation_set, percent in zip(_ANTI_DEEPFAKE_SETS, percents, strict=True):
        eers.append(PublishedEer(evaluation_set, percent, _BEFORE_CORRECTION))
    if by_the_arena is not None:
        eers.append(PublishedEer("In-the-Wild", by_the_arena, _BY_THE_ARENA))
    augmented, short = _AUGMENTED[suffix]
    return KnownDetector(
        name=name,
        on_hub=True,
        trained_on=f"{_ANTI_DEEPFAKE_TRAINING}, {augmented}",
        trained_on_short=f"74,000 h, {short}",
        overlap=_ANTI_DEEPFAKE_OVERLAP,
        protocol="whole recordings",
        eers=tuple(eers),
        parameters=parameters,
        licence="CC BY-NC-SA 4.0",
        weights=f"https://huggingface.co/{name}",
        command=f'asdf.Detector("{PREFIX}{name}")',
        paper="arXiv 2506.21090",
    )


_of_2019_la = partial(
    KnownDetector,
    trained_on="ASVspoof 2019 LA, training part",
    trained_on_short="19LA",
    protocol="first 64,600 samples (4.04 s)",
)
_BY_THEIR_AUTHORS = (
    _of_2019_la(
        name="AASIST",
        eers=(PublishedEer("ASVspoof 2019 LA", 0.83),),
        parameters="297,866",
        licence="MIT",
        size_bytes=1_281_532,
        sha256="51d2d9cf0738172f61e2a384ec50a54a55363240f67c971ed55a92435bc1a1c0",
        weights="https://github.com/clovaai/aasist/blob/main/models/weights/AASIST.pth",
        command="python -m asdf import AASIST.pth net.pt",
        paper="arXiv 2110.01200",
    ),
    _of_2019_la(
        name="AASIST-L",
        eers=(PublishedEer("ASVspoof 2019 LA", 0.99),),
        parameters="85,306",
        licence="MIT",
        size_bytes=426_428,
        sha256="814331d088032bb4c3fa61cc014789eadeed464209dd094ab3a2dd6ffbdce27a",
        weights="https://github.com/clovaai/aasist/blob/main/models/weights/AASIST-L.pth",
        command="python -m asdf import AASIST-L.pth net.pt",
        paper="arXiv 2110.01200",
    ),
    _of_2019_la(
        name="SSL_Anti-spoofing",
        eers=(
            PublishedEer("ASVspoof 2021 LA", 0.82, "the best run"),
            PublishedEer("ASVspoof 2021 DF", 2.85, "the best run"),
            PublishedEer("In-the-Wild", 10.46, "by the authors of Nes2Net"),
        ),
        parameters="XLS-R 300M + 447 k",
        licence="MIT",
        weights="https://drive.google.com/drive/folders/1c4ywztEVlYVijfwbGLl9OEa1SNtFKppB",
        command="python -m asdf import best_SSL_model_LA.pth net.pt",
        paper="arXiv 2202.12233",
    ),
    _of_2019_la(
        name="SLS",
        eers=(
            PublishedEer("ASVspoof 2021 LA", 2.87),
            PublishedEer("ASVspoof 2021 DF", 1.92),
            PublishedEer("In-the-Wild", 7.46),
        ),
        parameters="XLS-R 300M + 23,399 k",
        weights="https://drive.google.com/drive/folders/13vw_AX1jHdYndRu1edlgpdNJpCX8OnrH",
        command="python -m asdf import sls.pth net.pt",
        paper="ACM MM 2024",
    ),
    _of_2019_la(
        name="Nes2Net-X",
        eers=(PublishedEer("ASVspoof 2021 DF", 1.65, "of this file"),),
        parameters="XLS-R 300M + 511 k",
        weights="https://drive.google.com/file/d/1tjuSdbzgCnJSfy_eE_P52jRAonHY4YUT",
        command="python -m asdf import nes2net_x.pth net.pt",
        paper="arXiv 2504.05657",
    ),
    _of_2019_la(
        name="Nes2Net-X, mean of 5 checkpoints",
        eers=(PublishedEer("ASVspoof 2021 DF", 1.49, "of this file"),),
        parameters="XLS-R 300M + 511 k",
        weights="https://drive.google.com/file/d/1JFGv_2TONMnTLGbiOIuHFfMvuo4SIIpg",
        command="python -m asdf import nes2net_x.pth net.pt",
        paper="arXiv 2504.05657",
    ),
    _of_2019_la(
        name="TCM",
        protocol="first 66,800 samples (4.18 s)",
        eers=(
            PublishedEer("ASVspoof 2021 LA", 1.03, "mean of 5 checkpoints"),
            PublishedEer("ASVspoof 2021 DF", 2.06, "mean of 5 checkpoints"),
            PublishedEer("In-the-Wild", 7.79, "by the table of Nes2Net"),
        ),
        parameters="XLS-R 300M + 2,383 k",
        licence="MIT",
        weights="https://github.com/ductuantruong/tcm_add (OneDrive)",
        command="python -m asdf import tcm.pth net.pt",
        paper="doi 10.21437/Interspeech.2024-659",
    ),
    _of_2019_la(
        name="RawNet2 of ASVspoof 2021",
        licence="MIT",
        weights="https://www.asvspoof.org/asvspoof2021/pre_trained_DF_RawNet2.zip",
        command="python -m asdf import pre_trained_DF_RawNet2.pth net.pt",
        paper="arXiv 2011.01108",
    ),
    _of_2019_la(
        name="LFCC-LCNN of ASVspoof 2021",
        protocol="whole recordings",
        parameters="269,729",
        licence="BSD 3-Clause",
        weights="https://www.asvspoof.org/asvspoof2021/pre_trained_LA_LFCC-LCNN.zip",
        command="python -m asdf import la_trained_network.pt net.pt",
        paper="arXiv 2103.11326",
    ),
    _of_2019_la(
        name="RawGAT-ST",
        eers=(PublishedEer("ASVspoof 2019 LA", 1.06, "of the authors' scores, next to the file"),),
        parameters="440,810",
        licence="MIT",
        size_bytes=1_858_500,
        sha256="8a91ce8201d42119cbfb9ebca8850e5914f1a85959b3ca962819783738c2a9e2",
        weights=(
            "https://github.com/eurecom-asp/RawGAT-ST-antispoofing/blob/main/Pre_trained_models/"
            "RawGAT_ST_mul/Best_epoch.pth"
        ),
        command="python -m asdf import Best_epoch.pth net.pt",
        paper="arXiv 2107.12710",
    ),
    _of_2019_la(
        name="DeepFense/ASV19_Wav2Vec2_AASIST_NoAug_Seed42",
        on_hub=True,
        protocol="first 64,000 samples (4 s)",
        weights="https://huggingface.co/DeepFense/ASV19_Wav2Vec2_AASIST_NoAug_Seed42",
        command=f'asdf.Detector("{PREFIX}DeepFense/ASV19_Wav2Vec2_AASIST_NoAug_Seed42")',
        paper="arXiv 2604.08450",
    ),
    KnownDetector(
        name="SpeechAntiSpoofingBenchmarks/WhisperMFCCMesoNet",
        on_hub=True,
        trained_on="ASVspoof 2021 DF, a part of its evaluation set",
        trained_on_short="21DF",
        overlap="ASVspoof 2021 DF, and ASVspoof 2019 LA, from which it was made",
        protocol=(
            "first 480,000 samples (30 s), after sox shortened silences, which ASDF does not do"
        ),
        eers=(
            PublishedEer("In-the-Wild", 26.72, "by its authors, and by the Arena"),
            PublishedEer("ASVspoof 2019 LA", 5.83, "by the Arena"),
        ),
        parameters="7,660,881",
        licence="MIT",
        weights="https://huggingface.co/SpeechAntiSpoofingBenchmarks/WhisperMFCCMesoNet",
        command=f'asdf.Detector("{PREFIX}SpeechAntiSpoofingBenchmarks/WhisperMFCCMesoNet")',
        paper="arXiv 2306.01428",
    ),
)


_LAB260_SETS = (
    "ASVspoof 2019 LA",
    "ASVspoof 2021 LA",
    "ASVspoof 2021 DF",
    "ASVspoof 5",
    "ADD 2022",
    "In-the-Wild",
)
_BY_LAB260 = "by its authors, on their model card"


def _make_spectra(name: str, percents: tuple[float, ...], parameters: str | None) -> KnownDetector:
    eers = []
    for evaluation_set, percent in zip(_LAB260_SETS, percents, strict=True):
        eers.append(PublishedEer(evaluation_set, percent, _BY_LAB260))
    return KnownDetector(
        name=f"lab260/{name}",
        on_hub=True,
        trained_on="its card does not say",
        trained_on_short=NOT_STATED,
        protocol="first 64,600 samples (4.04 s), pre-emphasised",
        eers=tuple(eers),
        parameters=parameters,
        licence="Apache 2.0",
        weights=f"https://huggingface.co/lab260/{name}",
        command=f'asdf.Detector("{PREFIX}lab260/{name}")',
        paper="none; by the authors of arXiv 2408.17352",
    )


_xlsr_mamba = partial(
    _of_2019_la,
    on_hub=True,
    protocol="first 66,800 samples (4.18 s)",
    parameters="319 M",
    licence="MIT",
    paper="arXiv 2411.10027",
)
_ON_HUB_BY_OTHERS = (
    _xlsr_mamba(
        name="AustinXiao/XLSR-Mamba-LA",
        eers=(PublishedEer("ASVspoof 2021 LA", 0.93), PublishedEer("In-the-Wild", 6.71)),
        weights="https://huggingface.co/AustinXiao/XLSR-Mamba-LA",
        command=f'asdf.Detector("{PREFIX}AustinXiao/XLSR-Mamba-LA")',
    ),
    _xlsr_mamba(
        name="AustinXiao/XLSR-Mamba-DF",
        eers=(PublishedEer("ASVspoof 2021 DF", 1.88),),
        weights="https://huggingface.co/AustinXiao/XLSR-Mamba-DF",
        command=f'asdf.Detector("{PREFIX}AustinXiao/XLSR-Mamba-DF")',
    ),
    _make_spectra("Spectra-0", (0.181, 6.475, 5.410, 14.426, 14.716, 1.026), None),
    _make_spectra("Spectra-AASIST", (0.159, 5.164, 2.568, 14.056, 15.205, 1.461), None),
    _make_spectra("Spectra-AASIST3", (0.723, 4.506, 1.998, 13.82, 15.187, 0.961), "318.95 M"),
)


def known_detectors() -> list[KnownDetector]:
    """Return the detectors, beginning with those that are downloaded by their names."""
    detectors = [_make_anti_deepfake(row, "") for row in _ANTI_DEEPFAKE]
    detectors += [_make_anti_deepfake(row, "-nda") for row in _ANTI_DEEPFAKE_NDA]
    found = [*df_arena_detectors(), *classifier_detectors(), *_ON_HUB_BY_OTHERS]
    return [*detectors, *found, *_BY_THEIR_AUTHORS]


def find_published(named: Path) -> HubName | Path | None:
    """Return the location of a published detector with a name in the list of `detectors`.

    Returns:
        Its repository on the hub; or the file with its weights in the current folder, which is
        verified if its SHA-256 is known; None if `named` exists.

    Raises:
        UsageError: it is neither a path nor such a name.
        AsdfError: that file is missing, or another one; the message gives its location, and the
            command.
    """
    # A front end of torchaudio is named for what it is where networks are read.
    if named.exists() or str(named).startswith(BUNDLE):
        return None
    wanted = str(named).lower()
    for detector in known_detectors():
        if wanted == detector.short_name.lower():
            return HubName(detector.name) if detector.on_hub else _local_weights(detector)
    files = [path.name for path in named.parent.glob("*") if path.suffix in SUFFIXES]
    problem = f"there is no file {named}{from_here(named)}"
    if len(named.parts) > 1:
        raise UsageError(f"{problem}.{did_you_mean(named.name, files)} Check the path.")
    names = [SMALL, *(detector.short_name for detector in known_detectors())]
    # Of a family, the beginning of its names is what people remember.
    family = [name for name in names if name.lower().startswith(wanted)]
    near = f" Did you mean '{family[0]}'?" if family else did_you_mean(wanted, [*files, *names])
    raise UsageError(
        f"{problem}, and no detector of that name.{near} `python -m asdf detectors` lists them."
    )


def _local_weights(detector: KnownDetector) -> Path:
    """Return the path of a detector's weights in the current folder."""
    path = Path(detector.file)
    if not path.is_file():
        raise AsdfError(
            f"{detector.name} is a published detector whose weights are not here. Download them "
            f"from {detector.weights}, then convert the file to a network of ASDF: "
            f"{detector.command}. In the folder with {path} the name is enough."
        )
    if detector.sha256 is not None and sha256_of(path) != detector.sha256:
        raise AsdfError(
            f"{path} is not the file of {detector.name} that its authors published: its SHA-256 is "
            f"not {detector.sha256}. Download it again from {detector.weights}, or pass {path} "
            "itself if you mean it."
        )
    return path


def known_names() -> list[str]:
    """Return the names of the hub repositories among them."""
    return [detector.name for detector in known_detectors() if detector.on_hub]


def nearest_known(repository: str) -> str:
    """Return " Did you mean 'hub:ORG/NAME'?" for the closest known name, or ''."""
    return did_you_mean(repository, known_names(), prefix=PREFIX)
