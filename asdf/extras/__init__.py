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

ENGINES: dict[str, str] = {
    "packed": "asdf.extras.cpu.network.PackedNetwork",
    "graph": "asdf.extras.cpu.graph.open_graph",
}
"""What computes networks by other means than torch's layers, by the name of the engine.

'packed' is a class, with `takes(device, precision)` and what `asdf.scoring.computing.Engine` says.
'graph' is a function that opens the shipped detector without torch: of `Options`, it returns a
`OpenedNetwork`, or None where it cannot.
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

NETWORKS: tuple[str, ...] = (f"{_ZOO}.networks",)
"""Packages of classes that `asdf.networks` offers; they own their short names and settings."""

LAYOUTS: dict[str, str] = {
    "import_detector": f"{_ZOO}.layouts.importing",
    "load_detector_weights": f"{_ZOO}.layouts.importing",
}
"""Module of each function that `asdf.interchange` offers for layouts of others, by name."""

EXPORTS: dict[str, str] = dict.fromkeys(
    (
        *("ssl_anti_spoofing", "aasist", "rawnet2", "antideepfake", "df_arena"),
        *("transformers_classifier", "published"),
    ),
    f"{_ZOO}.layouts.published.write_published",
)
"""Function that writes each layout of `export`, by name: of the name, OUT, network and file."""

ENCODERS: dict[str, str] = {
    "beats": f"{_ZOO}.networks.beats.is_beats",
    "dasheng": f"{_ZOO}.networks.dasheng.is_dasheng",
}
"""Function that recognises the layers of a front end's files, by its short name."""

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
