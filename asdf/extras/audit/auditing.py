"""Audit of one or several lists: shortcuts between the classes, copies, splits and bad files.

Invariant: an audit depends only on its lists and measurements: the same recordings give the same
audit, to the byte of its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Flags, Indices
from asdf.errors import AsdfError
from asdf.extras.audit.audited import Audit, Result, Row
from asdf.extras.audit.features import FEATURES, NOT_FEATURES, Feature, column_feature
from asdf.extras.audit.list_findings import (
    attacks_of_one_language,
    bad_files,
    contradicted_labels,
    copies,
    shared_by_splits,
)
from asdf.extras.audit.measuring import Measured, name_values
from asdf.extras.audit.single import (
    Separation,
    Values,
    bins_of,
    chance,
    make_folds,
    permutation_tests,
    score_all_together,
    score_feature,
    separate,
)
from asdf.metrics.intervals import holm
from asdf.tables.table import each
from asdf.trials.trial_list import TrialList

SIGNIFICANT = 0.05
_JOINT = Feature(
    "all",
    "all that a network hears",
    "time",
    "Record, level and code both classes alike: together, features distinguish them.",
)

PUBLISHED = {
    "asvspoof19": {
        "leading_silence": (0.151, "Müller et al., 2021: the leading silence of ASVspoof 2019 LA")
    }
}
"""Published results, by corpus and feature: EER and source."""

_MUELLER = (
    "Müller et al., 'Speech is Silver, Silence is Golden' (2021): bona fide recordings of ASVspoof "
    "2019 and 2021 have longer silence before and after speech; without it RawNet2 went from 3.6 % "
    "EER to 15.5 % on ASVspoof 2019 LA."
)
PAPERS = {
    "asvspoof19": (_MUELLER,),
    "asvspoof21": (_MUELLER,),
}
"""Statements of papers on shortcuts in a corpus, without an EER of a single feature."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Parameters of an audit.

    Attributes:
        limit: EER below which a feature is a shortcut.
        replicates: Number of bootstrap replicates of each interval.
        permutations: Number of permutations of each test.
        joint: Whether a detector of all features together is tested too.
        published: Name of the corpus, for comparison with papers.
        progress: Function that is called with the name of the next computation.
    """

    limit: float = 0.4
    replicates: int = 1000
    permutations: int = 999
    joint: bool = True
    published: str = ""
    progress: Callable[[str], None] = lambda what: None


def check_classes(lists: Sequence[TrialList]) -> None:
    """Raise an AsdfError if lists have fewer than two recordings of a class."""
    labels = np.concatenate(each(lists, "labels"))
    _require_both(int((labels == 1).sum()), int((labels == 0).sum()), "are in the lists")


def _require_both(bona_fide: int, spoof: int, where: str) -> None:
    if min(bona_fide, spoof) < 2:
        raise AsdfError(
            f"an audit compares two classes: {bona_fide} bona fide and {spoof} spoofed recordings "
            f"{where}. Name lists with both."
        )


def audit_recordings(
    lists: Sequence[TrialList],
    measured: Sequence[Sequence[Measured]],
    options: Options = Options(),
) -> Audit:
    """Audit lists whose recordings were measured.

    Args:
        lists: Splits of one corpus, which are searched for shortcuts together.
        measured: Measurements, one per recording of each list.

    Raises:
        AsdfError: fewer than two recordings of a class can be read.
        UsageError: a package is missing.
    """
    rows = list_rows(lists, measured)
    usable = [row for row in rows if row.measured.is_read and row.label in (0, 1)]
    labels = np.array(each(usable, "label")) == 1
    _require_both(int(labels.sum()), int((~labels).sum()), "can be read")
    columns = feature_columns(usable)
    speakers = _speakers(usable)
    results = _test_features(columns, labels, speakers, options)
    options.progress("copies")
    groups = [
        *bad_files(rows),
        *copies(usable),
        *shared_by_splits(lists),
        *attacks_of_one_language(usable),
        *contradicted_labels(results, labels, usable),
    ]
    heard = sorted(
        (result for result in results if result.feature.is_heard),
        key=lambda result: result.separation.eer.value,
    )
    return Audit(
        names=each(lists, "name"),
        counts=(len(rows), int(labels.sum()), int((~labels).sum())),
        speakers=None if speakers is None else len(set(speakers)),
        limit=options.limit,
        chance=chance(labels, options.replicates),
        results=heard,
        unheard=[result for result in results if not result.feature.is_heard],
        groups=groups,
        labels=labels,
        papers=PAPERS.get(options.published, ()),
    )


def list_rows(lists: Sequence[TrialList], measured: Sequence[Sequence[Measured]]) -> list[Row]:
    """Return the recordings of all lists, one list after another."""
    rows = []
    for trials, of_list in zip(lists, measured, strict=True):
        names = name_values(trials.ids)
        for index, one in enumerate(of_list):
            columns = {name: values[index] for name, values in trials.columns.items()}
            row = Row(
                trials.name,
                trials.ids[index],
                int(trials.labels[index]),
                columns,
                names[index],
                one,
            )
            rows.append(row)
    return rows


def feature_columns(rows: Sequence[Row]) -> dict[str, Values]:
    """Return the values of each feature that differs between any two recordings."""
    keys = dict.fromkeys(FEATURES)
    for row in rows:
        keys.update(dict.fromkeys(row.columns))
    columns: dict[str, Values] = {}
    for key in keys:
        if key in NOT_FEATURES:
            continue
        values: list[float | str | None] = []
        for row in rows:
            # What was measured counts before what a name or a column states.
            value = row.measured.values.get(key, row.names.get(key, row.columns.get(key)))
            values.append(value)
        if len(set(values)) > 1:
            columns[key] = values
    return columns


def _speakers(rows: Sequence[Row]) -> list[str] | None:
    """Return the speaker of each recording; None if some are unknown, or there is only one."""
    speakers = [row.columns.get("speaker", "") for row in rows]
    return speakers if all(speakers) and len(set(speakers)) > 1 else None


def _test_features(
    columns: Mapping[str, Values], labels: Flags, speakers: list[str] | None, options: Options
) -> list[Result]:
    """Return the result of each feature, with p-values corrected within heard and unheard ones."""
    singly = make_folds(list(map(str, range(len(labels)))))
    by_speaker = singly if speakers is None else make_folds(speakers)
    p_values: dict[str, float] = {}
    separations: dict[str, Separation] = {}
    for by_recording in (False, True):
        keys = [key for key in columns if column_feature(key).by_recording == by_recording]
        options.progress(f"{len(keys)} features")
        groups = None if by_recording else speakers
        bins = [bins_of(columns[key]) for key in keys]
        tested = permutation_tests(bins, labels, groups, options.permutations)
        p_values.update(zip(keys, tested, strict=True))
        for key in keys:
            scores = score_feature(columns[key], labels, singly if by_recording else by_speaker)
            separations[key] = separate(scores, labels, groups, options.replicates)
    results = []
    for is_heard in (True, False):
        keys = [key for key in columns if column_feature(key).is_heard == is_heard]
        # Apart for names: these do not count, and must not make tests of what is heard stricter.
        adjusted = holm(list(map(p_values.__getitem__, keys)))
        for key, p_value in zip(keys, adjusted, strict=True):
            feature = column_feature(key)
            separation = separations[key]
            is_shortcut = separation.eer.value < options.limit and p_value < SIGNIFICANT
            known = PUBLISHED.get(options.published, {}).get(key)
            results.append(Result(feature, separation, p_value, is_shortcut, known, columns[key]))
    if options.joint:
        results += _test_together(columns, labels, speakers, by_speaker, options)
    return results


def _test_together(
    columns: Mapping[str, Values],
    labels: Flags,
    speakers: list[str] | None,
    folds: Indices,
    options: Options,
) -> list[Result]:
    """Return the result of all features together; [] if they cannot be learnt from."""
    heard = {
        key: values
        for key, values in columns.items()
        if column_feature(key).is_heard and not column_feature(key).by_recording
    }
    if not heard:
        return []
    for fold in range(int(folds.max()) + 1):
        rest = labels[folds != fold]
        # Both classes must remain, whichever fold is left out.
        if rest.all() or not rest.any():
            return []
    options.progress("all features together")
    scores = score_all_together(heard, labels, folds)
    separation = separate(scores, labels, speakers, options.replicates)
    # Permutations would be too slow: the interval decides, which is conservative.
    is_shortcut = separation.eer.high < options.limit
    return [Result(_JOINT, separation, None, is_shortcut, None, scores.tolist())]
