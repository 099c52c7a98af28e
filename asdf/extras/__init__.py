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
}
"""Group in --help, summary and module of each command, by name."""

ENGINES: dict[str, str] = {"packed": "asdf.extras.cpu.PackedNetwork"}
"""Class of each engine that computes a network with other layers, by name.

A class has `takes(device, precision)`, and what `asdf.scoring.computing.Engine` says.
"""
