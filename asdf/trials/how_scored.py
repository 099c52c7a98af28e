"""Information on how scores were computed: lengths, precision, and the role of the set.

Invariant: results are shown with everything known about their scoring, and results scored in
different ways are never compared without a remark. Published detectors score 64,600 samples (4.04
s), repeated or cut; whole recordings give other scores from the same weights. A set's role depends
on its recordings, not its name: results on a set used for training or for choosing the network
always say so.

The information is in NAME.scored.json next to a score file NAME.txt. All readers refuse a score
file with another number of trials or another SHA-256 than stated there: a truncated file, or one
with lines of another network, has another EER, and nothing else would reveal it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import sha256_of
from asdf.runs.streams import descriptor_of
from asdf.text import AnyPath

UNKNOWN = "not known"


@dataclass(frozen=True)
class ScoredLength:
    """The number of samples of recordings that are scored.

    Attributes:
        min_samples: Minimum length, to which shorter recordings are repeated.
        max_samples: Maximum length, at which longer recordings are cut; None for no limit.
        sample_rate: Sampling rate of these lengths, in Hz.
    """

    min_samples: int
    max_samples: int | None
    sample_rate: int = SAMPLE_RATE

    def describe(self) -> str:
        """Describe it for a table or a log."""
        if self.max_samples is None:
            return "whole"
        if self.min_samples >= self.max_samples:
            rate = "" if self.sample_rate == SAMPLE_RATE else f" at {self.sample_rate / 1000:g} kHz"
            return f"first {self.max_samples:,} samples{rate}"
        max_s = self.max_samples / self.sample_rate
        return f"whole, up to {max_s:g} s"

    def agrees_with(self, other: ScoredLength) -> bool:
        """Return whether results of both are comparable, which whole recordings always are."""
        return self == other or (self._is_whole and other._is_whole)

    def record(self) -> dict[str, int | None]:
        """Return it for JSON; the default rate is omitted."""
        values = asdict(self)
        if self.sample_rate == SAMPLE_RATE:
            del values["sample_rate"]
        return values

    @property
    def _is_whole(self) -> bool:
        # Few utterances of a corpus are shorter than a second or longer than a minute.
        minute = 60 * self.sample_rate
        is_cut = self.max_samples is not None and self.max_samples < minute
        return self.min_samples <= self.sample_rate and not is_cut


PUBLISHED = ScoredLength(64600, 64600)
"""The protocol of AASIST, SSL_Anti-spoofing, SLS, Nes2Net-X and most papers after them."""

WHOLE = ScoredLength(1, None)
"""Whole recordings."""


def described(scored: ScoredLength | None) -> str:
    """Describe `scored`; 'not known' for None, as for score files of other programs."""
    return UNKNOWN if scored is None else scored.describe()


def parse_scored_length(text: str) -> ScoredLength:
    """Read 'published', 'whole' or a number of samples that all recordings are cut or repeated to.

    Raises:
        UsageError: the text is none of these.
    """
    if text in ("published", "whole"):
        return PUBLISHED if text == "published" else WHOLE
    if text.isascii() and text.isdigit() and int(text):
        samples = int(text)
        return ScoredLength(samples, samples)
    raise UsageError(
        f"{text!r} is not a scored length. Give published (64,600 samples), whole, or a number of "
        "samples."
    )


_TRAINED = "trained on"
_CHOSE = "chose the network"


@dataclass(frozen=True)
class SetRole:
    """The numbers of a set's trials that a network had met before the evaluation.

    Attributes:
        trials: Number of trials of the set.
        trained_on: Number of trials whose recordings are in a training set.
        chose_network: Number of trials whose recordings are in the set that chose the network.
    """

    trials: int
    trained_on: int = 0
    chose_network: int = 0

    def describe(self) -> str:
        """Return 'trained on', '3 of 80 trained on', 'chose the network'; '' for a new set."""
        parts = [self.describe_training(), _share(self.chose_network, self.trials, _CHOSE)]
        return " and ".join(filter(None, parts))

    def describe_training(self) -> str:
        """Return only the part about training."""
        return _share(self.trained_on, self.trials, _TRAINED)

    def warnings(self) -> list[str]:
        """Return a sentence for each reason why results on the set are too good."""
        sentences = []
        if self.trained_on:
            part = "this set was"
            if self.trained_on < self.trials:
                part = f"{self.trained_on:,} of the {self.trials:,} recordings of this set were"
            sentences.append(f"{part} trained on: the results are not a test.")
        if self.chose_network:
            part = "this set"
            if self.chose_network < self.trials:
                part = f"{self.chose_network:,} of the {self.trials:,} recordings of this set"
            sentences.append(
                f"the network was chosen by its result on {part}: expect worse results on new "
                "speech."
            )
        return sentences

    def record(self) -> dict[str, int]:
        """Return it for JSON, without the number of trials, which each record has."""
        return {"trained_on": self.trained_on, "chose_network": self.chose_network}


def role_record(role: SetRole | None) -> dict[str, Any]:
    """Return a role for JSON; unknown values are null."""
    return {"trained_on": None, "chose_network": None} if role is None else role.record()


def role_words(role: SetRole | None) -> str:
    """Return ', trained on' and the like to append to a description; '' for a new set."""
    words = role.describe() if role is not None else ""
    return f", {words}" if words else ""


def role_in(row: Mapping[str, Any]) -> SetRole | None:
    """Return the role of the set in a row of results.json; None if it is not stated."""
    counts = [row.get(name) for name in ("bona_fide", "spoof", "trained_on", "chose_network")]
    known = [count for count in counts if isinstance(count, int)]
    return SetRole(known[0] + known[1], *known[2:]) if len(known) == len(counts) else None


def role_notes(roles: Iterable[tuple[str, SetRole | None]]) -> list[str]:
    """Return a line below a table for each set whose results are not a test.

    Args:
        roles: Name of each set, with its role.
    """
    notes: dict[str, None] = {}
    for name, role in roles:
        for warning in role.warnings() if role is not None else ():
            notes[f"{name}: {warning}"] = None
    return list(notes)


def _share(count: int, trials: int, what: str) -> str:
    if not count:
        return ""
    return what if count >= trials else f"{count:,} of {trials:,} {what}"


FULL = "fp32"
"""Single precision, the default that is not mentioned."""


@dataclass(frozen=True)
class HowScored:
    """How the scores of a file were computed.

    Attributes:
        length: Part of each recording that was scored; None if unknown.
        precision: Precision of the computation: 'fp32', 'tf32' or 'bf16'; None if unknown, as for
            files of other programs and of the first versions.
        engine: Engine of the computation: 'graph', 'packed' or 'plain'; None if unknown. Their
            scores agree within 1e-5, so they are compared without a remark.
        role: Role of the file's set for the network; None if unknown.
        network: Digest of the network that computed them (`asdf.interchange.network_digest`); None
            if unknown.
        trials: Number of trials that the score file should have; None if unknown.
        recordings: Digests of the 'list' of the set and of its 'recordings'; None if unknown.
    """

    length: ScoredLength | None = None
    precision: str | None = None
    engine: str | None = field(default=None, compare=False)
    role: SetRole | None = field(default=None, compare=False)
    network: str | None = field(default=None, compare=False)
    trials: int | None = field(default=None, compare=False)
    recordings: Mapping[str, str] | None = field(default=None, compare=False)

    def describe(self) -> str:
        """Describe it for a table or a log.

        The precision is mentioned only if it is not fp32, the role only for a set used for training
        or for choosing the network.
        """
        return f"{self.describe_computing()}{role_words(self.role)}"

    def describe_computing(self) -> str:
        """Return only length and precision, for outputs that state the role elsewhere."""
        return f"{described(self.length)}{in_precision(self.precision)}"

    def warnings(self) -> list[str]:
        """Return a sentence for each reason why results on the set are no test of the network."""
        return [] if self.role is None else self.role.warnings()

    def record(self) -> dict[str, Any]:
        """Return it for JSON; unknown values are null."""
        length = None if self.length is None else self.length.record()
        return {
            "scored_length": length,
            "scoring_precision": self.precision,
            **role_record(self.role),
        }


NOT_KNOWN = HowScored()
"""Unknown scoring, as for score files of other programs."""


def in_precision(precision: str | None) -> str:
    """Return ', in bf16' to append to a description; '' for fp32 or an unknown precision."""
    return "" if precision in (None, FULL) else f", in {precision}"


def described_set(row: Mapping[str, Any]) -> str:
    """Return the set of a row of results.json, 'dev' or 'dev, in bf16, trained on'."""
    return f"{row['set']}{in_precision(row.get('scoring_precision'))}{role_words(role_in(row))}"


def different_precisions(ways: Iterable[HowScored]) -> str:
    """Return 'fp32, bf16' if scores were computed in different precisions; else ''.

    An unknown precision counts as fp32, which most other programs use, but is mentioned.
    """
    precisions = dict.fromkeys(way.precision for way in ways)
    is_one = len({precision or FULL for precision in precisions}) < 2
    return "" if is_one else ", ".join(precision or UNKNOWN for precision in precisions)


def different_recordings(ways: Iterable[HowScored]) -> bool:
    """Return whether recordings of the same names are known to have another content."""
    return len({way.recordings["recordings"] for way in ways if way.recordings}) > 1


_MAX_CHARACTERS = 1000
"""Maximum number of characters to read: a few values with their names."""


def entry_path(score_file: AnyPath) -> Path:
    """Return the path of the information next to a score file."""
    return Path(score_file).with_suffix(".scored.json")


def read_entry(score_file: AnyPath) -> dict[str, Any]:
    """Return the information next to a score file; empty if it cannot be read."""
    # Standard input has no file next to it.
    if descriptor_of(score_file) is not None:
        return {}
    try:
        with entry_path(score_file).open(encoding="utf-8") as file:
            entry = json.loads(file.read(_MAX_CHARACTERS))
    # RecursionError: json calls itself for each nested bracket.
    except (OSError, ValueError, RecursionError, AsdfError):
        return {}
    return entry if isinstance(entry, dict) else {}


def stated_trials(entry: dict[str, Any]) -> int | None:
    """Return the number of trials that the score file should have; None if it is not stated."""
    trials = entry.get("trials")
    # The type itself, since JSON's true is an int for isinstance.
    return trials if type(trials) is int and trials > 0 else None


def check_unchanged(score_file: AnyPath, trials: int) -> None:
    """Refuse a score file with other trials or lines than are stated next to it.

    Files without a statement, as of other programs and of former versions, are accepted.

    Raises:
        AsdfError: the number of trials or the SHA-256 differs.
    """
    entry = read_entry(score_file)
    name = entry_path(score_file).name
    stated = stated_trials(entry)
    digests = entry.get("sha256")
    digest = digests.get(Path(score_file).suffix) if isinstance(digests, dict) else None
    if stated is not None and stated != trials:
        change = "was another file appended?" if trials > stated else "was it truncated by a copy?"
        found = (
            f"it has {trials:,} trials, but according to {name} next to it {stated:,} were scored; "
            f"{change}"
        )
    elif digest is not None and digest != sha256_of(Path(score_file)):
        found = (
            f"its lines are not those that were scored: {name} next to it has another SHA-256; "
            "were scores or labels edited, pasted or sorted?"
        )
    else:
        return
    raise AsdfError(
        f"{score_file}: {found} Copy it again or score the set again. If it was changed on "
        f"purpose, give it another name, or remove {entry_path(score_file)}."
    )
