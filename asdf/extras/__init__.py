"""What fewer people use, one folder each; the tables below are all that the core knows of it.

Invariant: an extra imports the core, and the core imports none: it looks names up with
`asdf.ports`. Without a folder and its lines, the rest works as before.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str, str]] = {
    "audit": (
        "measure",
        "search a corpus for shortcuts, duplicates and bad files",
        "asdf.extras.audit.command",
    ),
    "robustness": (
        "measure",
        "measure the effect of codecs, noise, rooms etc. on detectors, by grade",
        "asdf.extras.robustness.command",
    ),
    "calibrate": (
        "judge recordings",
        "convert a network's scores to log-likelihood ratios, with a threshold",
        "asdf.extras.forensic.calibrating.command",
    ),
    "serve": (
        "judge recordings",
        "start an HTTP service that scores recordings, with a web page",
        "asdf.extras.service.command",
    ),
    "case": (
        "judge recordings",
        "report recordings on one page: scores, likelihood ratios, validation, limits",
        "asdf.extras.forensic.case.command",
    ),
    "why": (
        "judge recordings",
        "show which stretches of time and which bands a score depends on",
        "asdf.extras.forensic.why.command",
    ),
    "import": (
        "exchange",
        "convert a published or older detector to a network of ASDF",
        "asdf.extras.zoo.command",
    ),
}
"""Group in --help, summary and module of each command, by name."""

ENGINES: dict[str, str] = {"packed": "asdf.extras.cpu.PackedNetwork"}
"""Class of each engine that computes a network with other layers, by name.

A class has `takes(device, precision)`, and what `asdf.scoring.computing.Engine` says.
"""

COLUMNS: dict[str, str] = {
    "unlike": "asdf.extras.forensic.unlike.UnlikeColumn",
    "llr": "asdf.extras.forensic.support.SupportColumn",
}
"""Class of each column of a score (`asdf.scoring.columns`), by key, in the order in which they are
computed; one with the key of a column of the core stands for it."""

CALIBRATIONS: dict[str, str] = {"support": "asdf.extras.forensic.support.with_support"}
"""Function that adds to a calibration what its set supports: of the calibration and its
`CalibrationSet`."""

_ZOO = "asdf.extras.zoo"

NETWORKS: dict[str, str] = {
    "SSL_SUPERB": f"{_ZOO}.networks.classes",
    "ClassesBackEnd": f"{_ZOO}.networks.classes",
    "SSL_Classifier": f"{_ZOO}.networks.classes",
    "DeepFenseAASISTBackEnd": f"{_ZOO}.networks.deepfense",
    "DeepFenseMLPBackEnd": f"{_ZOO}.networks.deepfense",
    "DeepFenseNes2NetBackEnd": f"{_ZOO}.networks.deepfense",
    "SSL_DeepFenseAASIST": f"{_ZOO}.networks.deepfense",
    "SSL_DeepFenseMLP": f"{_ZOO}.networks.deepfense",
    "SSL_DeepFenseNes2Net": f"{_ZOO}.networks.deepfense",
    "SSL_DeepFenseTCM": f"{_ZOO}.networks.deepfense",
    "GatedConformerBackEnd": f"{_ZOO}.networks.gated_conformer",
    "SSL_GatedConformer": f"{_ZOO}.networks.gated_conformer",
    "MambaBackEnd": f"{_ZOO}.networks.mamba",
    "SSL_Mamba": f"{_ZOO}.networks.mamba",
    "MesoNetBackEnd": f"{_ZOO}.networks.mesonet",
    "SSL_MesoNet": f"{_ZOO}.networks.mesonet",
    "SpecRNetBackEnd": f"{_ZOO}.networks.specrnet",
    "SSL_SpecRNet": f"{_ZOO}.networks.specrnet",
    "SpectraAASIST3BackEnd": f"{_ZOO}.networks.spectra",
    "SpectraAASISTBackEnd": f"{_ZOO}.networks.spectra",
    "SpectraECAPABackEnd": f"{_ZOO}.networks.spectra",
    "SSL_SpectraAASIST": f"{_ZOO}.networks.spectra",
    "SSL_SpectraAASIST3": f"{_ZOO}.networks.spectra",
    "SSL_SpectraECAPA": f"{_ZOO}.networks.spectra",
    "BEATsFrontEnd": f"{_ZOO}.networks.beats",
    "CQCCFrontEnd": f"{_ZOO}.networks.constant_q",
    "CQTFrontEnd": f"{_ZOO}.networks.constant_q",
    "DashengFrontEnd": f"{_ZOO}.networks.dasheng",
    "DecibelLFCCFrontEnd": f"{_ZOO}.networks.decibel_cepstra",
    "DecibelMFCCFrontEnd": f"{_ZOO}.networks.decibel_cepstra",
    "WhisperLFCCFrontEnd": f"{_ZOO}.networks.decibel_cepstra",
    "WhisperMFCCFrontEnd": f"{_ZOO}.networks.decibel_cepstra",
    "EATFrontEnd": f"{_ZOO}.networks.eat",
    "SincFrontEnd": f"{_ZOO}.networks.learned_bands",
    "MomentsFrontEnd": f"{_ZOO}.networks.moments",
    "RawGAT_ST": f"{_ZOO}.networks.rawgat_st",
}
"""Module of each class that `asdf.networks` offers, by name."""

BACK_ENDS: dict[str, str] = {
    "classes": "asdf.networks.ClassesBackEnd",
    "gated_conformer": "asdf.networks.GatedConformerBackEnd",
    "mamba": "asdf.networks.MambaBackEnd",
    "mesonet": "asdf.networks.MesoNetBackEnd",
    "specrnet": "asdf.networks.SpecRNetBackEnd",
    "deepfense_aasist": "asdf.networks.DeepFenseAASISTBackEnd",
    "deepfense_nes2net": "asdf.networks.DeepFenseNes2NetBackEnd",
    "deepfense_mlp": "asdf.networks.DeepFenseMLPBackEnd",
    "spectra_aasist": "asdf.networks.SpectraAASISTBackEnd",
    "spectra_aasist3": "asdf.networks.SpectraAASIST3BackEnd",
    "spectra_ecapa": "asdf.networks.SpectraECAPABackEnd",
}
"""Class path of each back end, by its short name in configs."""

FRONT_ENDS: dict[str, str] = {
    "cqt": "asdf.networks.CQTFrontEnd",
    "cqcc": "asdf.networks.CQCCFrontEnd",
    "sinc": "asdf.networks.SincFrontEnd",
    "moments": "asdf.networks.MomentsFrontEnd",
    "beats": "asdf.networks.BEATsFrontEnd",
    "eat": "asdf.networks.EATFrontEnd",
    "decibel_lfcc": "asdf.networks.DecibelLFCCFrontEnd",
    "decibel_mfcc": "asdf.networks.DecibelMFCCFrontEnd",
    "whisper_lfcc": "asdf.networks.WhisperLFCCFrontEnd",
    "whisper_mfcc": "asdf.networks.WhisperMFCCFrontEnd",
    "dasheng": "asdf.networks.DashengFrontEnd",
}
"""Class path of each front end, by its short name in configs."""

TRAITS: dict[str, tuple[str, ...]] = {
    "without_time": (
        "classes",
        "spectra_aasist",
        "spectra_aasist3",
        "spectra_ecapa",
        "mesonet",
        "specrnet",
        "deepfense_aasist",
    ),
    "networks_without_time": (
        "asdf.networks.RawGAT_ST",
        "asdf.networks.SSL_Classifier",
        "asdf.networks.SSL_DeepFenseAASIST",
        "asdf.networks.SSL_MesoNet",
        "asdf.networks.SSL_SUPERB",
        "asdf.networks.SSL_SpecRNet",
        "asdf.networks.SSL_SpectraAASIST",
        "asdf.networks.SSL_SpectraAASIST3",
        "asdf.networks.SSL_SpectraECAPA",
    ),
    "networks_without_front_end": ("asdf.networks.RawGAT_ST",),
}
"""What the settings know of these classes without importing them."""

LAYOUTS: dict[str, str] = {
    "import_detector": f"{_ZOO}.layouts.importing",
    "load_detector_weights": f"{_ZOO}.layouts.importing",
}
"""Module of each function that `asdf.interchange` offers for layouts of others, by name."""

EXPORTS: dict[str, str] = {
    "ssl_anti_spoofing": f"{_ZOO}.layouts.published_exports.write_published",
    "aasist": f"{_ZOO}.layouts.published_exports.write_published",
    "rawnet2": f"{_ZOO}.layouts.published_exports.write_published",
    "antideepfake": f"{_ZOO}.layouts.published_exports.write_published",
    "df_arena": f"{_ZOO}.layouts.published_exports.write_published",
    "transformers_classifier": f"{_ZOO}.layouts.published_exports.write_published",
    "published": f"{_ZOO}.layouts.published_exports.write_published",
}
"""Function that writes each layout of `export`, by name: of the name, OUT, network and file."""

ENCODERS: dict[str, str] = {
    "beats": f"{_ZOO}.networks.beats.is_beats",
    "dasheng": f"{_ZOO}.networks.dasheng.is_dasheng",
}
"""Function that recognises the layers of a front end's files, by its short name."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "Sections": (f"{_ZOO}.settings.OwnSections",),
    "BackEnd": (f"{_ZOO}.settings.OwnSizes",),
}
"""Dataclasses whose fields stand behind those of a dataclass of settings, by its name."""

_STORES = "asdf.extras.stores"

READERS: dict[str, str] = {"archives": f"{_STORES}.archives.Archives"}
"""Class of each kind of place, other than a folder, that recordings lie in, by name."""

CORPORA: tuple[str, ...] = (
    f"{_STORES}.sets.lhotse_sets",
    f"{_STORES}.sets.parquet_sets",
    f"{_STORES}.sets.webdatasets",
)
"""Modules with corpora by name (`asdf.corpora.KnownCorpus`)."""

LOCATED: dict[str, tuple[str, bool]] = {
    "webdataset": (f"{_STORES}.sets.webdatasets.read_webdataset", False),
    "shar": (f"{_STORES}.sets.lhotse_sets.read_shar", False),
    "lhotse": (f"{_STORES}.sets.lhotse_sets.read_lhotse", False),
    "datasets": (f"{_STORES}.sets.parquet_sets.read_datasets", True),
    "hub": (f"{_STORES}.sets.parquet_sets.read_hub", True),
}
"""Function that reads the data of a name such as 'lhotse:PATH', by kind; and whether ':SPLIT' may
follow. It takes the path, the split, the folder of corpora and `Columns`, and returns a `Reading`
and its `Tree`."""

LISTS: dict[str, str] = {".parquet": f"{_STORES}.sets.parquet_sets.read_parquet_list"}
"""Function that reads a list of a kind, by its suffix; it takes the path and `Columns`."""
