"""Corpora described by folders and file names: a common reader that follows a pattern.

Invariant: a recording is a trial if and only if its path matches the corpus's pattern; other
recordings are counted in a note, and their classes are never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from asdf.corpora.known_corpus import Reading, recordings
from asdf.errors import AsdfError
from asdf.trials.table import TrialCollector
from asdf.trials.trees import Tree

# Group of a pattern that determines the class and is not a column.
_KIND = "kind"
_OF_SPOOFS = ("attack", "vocoder")
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

    def names(self) -> list[str]:
        """Return the names of the columns."""
        groups = [name for name in re.compile(self.pattern).groupindex if name != _KIND]
        return list(dict.fromkeys([*groups, *self.renamed.values(), *self.columns]))

    def label(self, groups: Groups) -> int:
        kind = groups.get(_KIND, groups.get("attack", ""))
        return int(kind in self.bona_fide)

    def values(self, groups: Groups, label: int) -> dict[str, str]:
        """Return the columns of a recording."""
        values = {**self.columns, **groups}
        if self.derived is not None:
            values.update(self.derived(groups))
        if label == 1:
            for group, name in self.renamed.items():
                values[name] = groups[group]
            values.update(dict.fromkeys(_OF_SPOOFS, "-"))
        return values

    def read(self, tree: Tree, subset: str) -> Reading:
        """Read a corpus by its paths.

        Raises:
            AsdfError: no recording matches the layout, or none is in this subset.
        """
        names = self.names()
        collector = TrialCollector(tree.root, names)
        others = []
        unmatched = []
        trials = 0
        for name, groups in _match_all(self, tree):
            if groups is None:
                unmatched.append(name)
            elif subset and self.subset_of is not None and self.subset_of(groups) != subset:
                others.append(name)
            else:
                trials += 1
                label = self.label(groups)
                values = self.values(groups, label)
                collector.add(trials, name, label, [values.get(column, "") for column in names])
        if not trials:
            elsewhere = [*unmatched, *others]
            what = f"of subset {subset!r} " if subset else ""
            example = f", such as {elsewhere[0]}" if elsewhere else ""
            raise AsdfError(
                f"{tree.root}: no recordings {what}found in the corpus's layout; recordings "
                f"elsewhere: {len(elsewhere)}{example}. Was it unpacked completely, without moving "
                "its folders?"
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


def _match_all(layout: Layout, tree: Tree) -> Iterator[tuple[str, dict[str, str] | None]]:
    """Yield the recordings with the groups of their paths; None for paths that do not match."""
    pattern = re.compile(layout.pattern)
    recorded = recordings(tree, "")
    sounds = {name[: name.rfind(".")] for name in recorded if not name.lower().endswith(_VIDEOS)}
    names = []
    for name in recorded:
        # A video with a separate sound file next to it is skipped.
        is_video = name.lower().endswith(_VIDEOS)
        if not is_video or name[: name.rfind(".")] not in sounds:
            names.append(name)
    start = ""
    for home in layout.homes:
        inner = (name.removeprefix(f"{home}/") for name in names if name.startswith(f"{home}/"))
        if any(map(pattern.fullmatch, inner)):
            start = f"{home}/"
            break
    for name in names:
        if not name.startswith(start):
            continue
        match = pattern.fullmatch(name.removeprefix(start))
        if match is None:
            yield name, None
        else:
            # Optional groups without a match are None.
            yield name, {key: value or "" for key, value in match.groupdict().items()}
