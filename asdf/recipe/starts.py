"""What is recorded at the starts of a run, and what differs between them.

Invariants: environment.json has one record per start; a failed run has the record of its start and
the memory of its main process, and the failure is reported even if recording fails. `settings.py`
and `code/` are those of the newest start. Before a start with different ones replaces them, they
are copied to `starts/N/`, where N is the number of the last start that used them, as in
environment.json. The files of start M are thus in the first `starts/N` with N >= M that has them,
or else they are the newest. Numbers are unique, even if environment.json was removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.data.training_plan import minibatch_per_process
from asdf.distributed.determinism import describe_promise
from asdf.distributed.devices import cpu_notice
from asdf.recipe.command_line import config_files, config_folders
from asdf.recipe.lists import Measured, RunLists
from asdf.recipe.run import Run
from asdf.recipe.used_sets import trains
from asdf.removed import ANY, SETTINGS
from asdf.runs.evaluations import Evaluation, mark_stale, read_evaluations, write_evaluations
from asdf.runs.files import atomic_write, sha256_of, write_text
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.runs.start_records import (
    append_record,
    code_files,
    environment_record,
    now,
    read_starts,
    save_code,
    update_record,
)
from asdf.settings import Settings
from asdf.settings.catalogue import class_paths
from asdf.settings.config_files import parse_assignments
from asdf.training.callbacks import find_callbacks

if TYPE_CHECKING:
    from asdf.distributed.world import World

_MEANT_TO_CHANGE = frozenset(
    {
        # The length of training, and what is validated, saved, selected and scored meanwhile.
        "network.max_epochs",
        "network.max_steps",
        "network.early_stop_evaluations",
        "network.epochs_per_train_call",
        "network.evaluation_interval_steps",
        "network.keep_last_networks",
        "network.keep_best_networks",
        "network.average_best_networks",
        "network.callbacks",
        "network.eval_minibatch_size_factor",
        "computing.use_gpu",
        "computing.scoring_precision",
        "computing.scoring_engine",
        "recipe.selected_epochs",
        "recipe.evaluation_sets",
    }
)
"""Settings whose changes cause no warning: they do not affect the computation of a step."""

# Begins the part of settings.py about earlier steps.
_EARLIER = "\n# Other values of earlier steps:\n"


class Starts:
    """The starts of a run that its folder records.

    Attributes:
        records: Records by number, oldest first.
        last: Number of the last start; 0 if unknown.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.records: dict[int, dict[str, Any]] = {}
        for index, record in enumerate(read_starts(layout.environment), 1):
            number = record.get("start")
            self.records[number if isinstance(number, int) else index] = record
        # The next start saves the files of a start, whose record may be gone.
        saved = [int(path.name) + 1 for path in layout.starts.glob("*/") if path.name.isdecimal()]
        self.last = max([int(layout.settings.exists()), *self.records, *saved])

    def before(self, step: int) -> int | None:
        """Return the number of the start that trained up to a step; None if unknown."""
        earlier = sorted(self.records)[:-1]
        if not any("trained_from" in self.records[number] for number in earlier):
            # An earlier version recorded neither it nor numbers; a later start failed before it.
            earlier = [number for number in earlier if "start" not in self.records[number]]
            return earlier[-1] if earlier else None
        for number in reversed(earlier):
            began = self.records[number].get("trained_from")
            # A start that began at this step was killed before it saved any.
            if isinstance(began, int) and began < step:
                return number
        return None

    def copy_of(self, number: int, path_of: Callable[[int], Path]) -> Path | None:
        """Return the copy of a file as a start had it; None if it is unchanged."""
        # Starts in between with the same file have no copy.
        copies = map(path_of, range(number, self.last))
        return next((path for path in copies if path.exists()), None)

    def changes(self, step: int) -> Iterator[tuple[str, bool]]:
        """Yield the differences of the last start from the one that trained up to `step`.

        Each is in words, followed by whether it may be unintended.
        """
        # Imported here: only a run that goes on compares.
        from asdf.tasks.studies.configurations import NO_EFFECT

        number = self.before(step)
        if number is None:
            return
        before, now = self.records[number], self.records[max(self.records)]
        copied = self.copy_of(number, self._layout.start_settings)
        values, new_values = (
            _values(copied or self._layout.settings),
            _values(self._layout.settings),
        )
        for name in dict.fromkeys((*values, *new_values)):
            old, new = values.get(name, "no setting"), new_values.get(name, "no setting")
            # The starting point of training has its own line.
            if old != new and name not in (*NO_EFFECT, "network.resume_epoch"):
                words = f"{name} was {old} up to step {step}, is {new} from here"
                yield words, name not in _MEANT_TO_CHANGE
        for words in self._changed_code(number, _named(before, "code"), _named(now, "code"), step):
            yield words, True
        versions = _versions(before)
        for name, version in _versions(now).items():
            if versions.get(name, version) != version:
                yield f"{name} was {versions[name]} up to step {step}, is {version} from here", True
        old_sets = _named(before, "recordings")
        for name, digests in _named(now, "recordings").items():
            if old_sets.get(name, digests) == digests:
                continue
            if old_sets[name].get("list") != digests["list"]:
                yield f"the list of {name} differs from that of the steps up to {step}", True
            else:
                words = f"recordings of {name} differ from those of the steps up to {step}"
                yield f"{words}: files of the same names have another size or content", True

    def _changed_code(
        self, number: int, before: Mapping[str, str], now: Mapping[str, str], step: int
    ) -> Iterator[str]:
        for name in dict.fromkeys((*before, *now)):
            # The settings contain the changes of a config; other configs do not matter.
            if before.get(name) == now.get(name) or name.startswith("configs/"):
                continue
            saved = self.copy_of(number, lambda start: self._layout.start_code(start) / name)  # noqa: B023
            where = f" ({saved.relative_to(self._layout.system)})" if saved else ""
            if name not in before:
                yield f"{name} is part of the run's own code from here on"
            elif name not in now:
                yield f"{name}{where} was part of the run's own code up to step {step}"
            else:
                yield f"{name} differs from the code of the steps up to {step}{where}"


def _named(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the values by name in an entry of a record; empty if it lacks the entry."""
    return dict(record.get(key) or {})


def _versions(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of a start: Python, packages, drivers, and the code."""
    named = {**_named(record, "versions"), **_named(record, "libraries")}
    versions = {"Python": str(record.get("python"))}
    versions |= {name: str(version) for name, version in named.items()}
    git = record.get("git")
    if isinstance(git, Mapping):
        versions["ASDF's commit"] = str(git.get("commit"))[:12]
    return versions


def _values(path: Path) -> dict[str, str]:
    """Return the values in a settings.py by name, without their sources.

    Settings of earlier versions that have left are no difference, unless they changed something.
    """
    assignments, _ = parse_assignments(path.read_text(encoding="utf-8"), "settings.py")
    values = {}
    for assignment in assignments:
        left = SETTINGS.get(assignment.target)
        if left is None or left.default not in (ANY, assignment.value):
            values[assignment.target] = assignment.text
    return values


def replace_settings(layout: Layout, save: Callable[[Path], None]) -> None:
    """Save settings.py; first copy its content to its start's folder if the values differ.

    Args:
        save: Function that writes the settings of this start to a path.
    """
    if not layout.settings.exists():
        save(layout.settings)
        return
    copy = layout.start_settings(Starts(layout).last)
    # Written first: a process killed in between leaves an extra copy, and loses nothing.
    write_text(copy, layout.settings.read_text(encoding="utf-8"))
    save(layout.settings)
    if _values(copy) == _values(layout.settings):
        copy.unlink()
        # It may contain code.
        with suppress(OSError):
            copy.parent.rmdir()
            layout.starts.rmdir()


def retain_code(layout: Layout, files: Mapping[str, Path]) -> None:
    """Copy code/ to the folder of its start if a file was changed, added or removed."""
    records = Starts(layout).records
    numbers = [number for number, record in records.items() if _named(record, "code")]
    if not numbers:
        return
    digests = _named(records[numbers[-1]], "code")
    if digests == {name: sha256_of(path) for name, path in files.items()}:
        return
    for name, digest in digests.items():
        path = layout.code / name
        # A killed process may have replaced only some files; the copy was complete before that.
        if path.is_file() and sha256_of(path) == digest:
            with atomic_write(layout.start_code(numbers[-1]) / name, "wb") as file:
                file.write(path.read_bytes())


def note_changes(layout: Layout) -> None:
    """State in settings.py which values the earlier steps of the newest network were trained with.

    A start is passed over if a later one resumed from before its steps.
    """
    text, _, _ = layout.settings.read_text(encoding="utf-8").partition(_EARLIER)
    notes: list[str] = []
    step = math.inf
    for record in reversed(Starts(layout).records.values()):
        began = record.get("trained_from")
        if isinstance(began, int) and began < step:
            step = began
            words = [*record.get("planned_changes", ()), *record.get("changes", ())]
            of_settings = [word for word in words if f"\n{word.partition(' ')[0]} = " in text]
            notes[:0] = [f"# {word}\n" for word in of_settings]
    write_text(layout.settings, text + _EARLIER * bool(notes) + "".join(notes))


def record_training(layout: Layout, world: World, lists: RunLists, step: int) -> None:
    """Record the step at which this start resumes, and report differences from earlier ones.

    All ranks call this together.

    Args:
        step: Number of optimiser steps taken before; 0 for a new training.
    """
    recordings = lists.digests_of_training()

    def record() -> None:
        update_record(layout.environment, {"trained_from": step, "recordings": recordings})
        found = list(Starts(layout).changes(step)) if step else []
        for words, is_warning in found:
            if is_warning:
                LOG.warning("warning: %s", words)
            else:
                LOG.info("%s", words)
        changes = [words for words, is_warning in found if is_warning]
        planned = [words for words, is_warning in found if not is_warning]
        update_record(layout.environment, {"changes": changes, "planned_changes": planned})
        note_changes(layout)

    world.run_on_main(record)


def mark_evaluations(
    layout: Layout, world: World, lists: RunLists, measured: Iterable[Measured]
) -> list[Evaluation]:
    """Return the run's evaluations, marking those on lists whose recordings have changed.

    The marks are written to evaluations.json. All ranks call this together.
    """
    known = world.run_on_main(partial(read_evaluations, layout))
    evaluated = set(chain.from_iterable(evaluation.recordings for evaluation in known))
    # The digests of other lists are unknown, so nothing is known about them.
    recordings = {
        utterances.name: lists.digests(utterances)["recordings"]
        for utterances, _ in measured
        if utterances.name in evaluated
    }

    def mark() -> list[Evaluation]:
        marked = mark_stale(known, recordings)
        if marked != known:
            write_evaluations(layout, marked)
        return marked

    return world.run_on_main(mark)


def start_run(run: Run, account: str) -> None:
    """Log and record the environment, and find missing requirements before any work.

    Args:
        account: Text of the settings with their sources, for log.txt.
    """
    from asdf.distributed.gpus import library_versions, start_counting_memory
    from asdf.recipe.requirements import check_requirements, class_checks
    from asdf.scoring.computing import describe_scoring

    settings, folders, world = run.settings, run.folders, run.world
    layout = folders.layout
    minibatch = world.run_on_main(partial(minibatch_per_process, settings.network, world.size))
    part = f"{minibatch} of {minibatch * world.size} utterances per minibatch"
    devices = world.gather(f"{world.describe()}, {part}") or []
    LOG.info("config %s, system folder %s", run.config, folders.system)
    if settings.computing.deterministic:
        LOG.info("%s", describe_promise(world.device))
    notice = cpu_notice(settings.computing, world.device.type)
    if notice and world.is_main:
        LOG.warning("warning: %s", notice)
    for line in [*devices, *describe_scoring(settings, world)]:
        LOG.info("%s", line)

    def record_start() -> None:
        layout.networks.mkdir(parents=True, exist_ok=True)
        number = Starts(layout).last + 1
        replace_settings(layout, Settings().save)
        note_changes(layout)
        record = environment_record(devices, folders.recipe, library_versions(world.device))
        append_record(layout.environment, {"start": number, **record})

    def record_code() -> None:
        files = code_files(folders.recipe, class_paths(settings))
        # Those of other folders that run.py names lie next to the recipe's own.
        for path in config_files(folders.recipe, config_folders(folders.recipe / "run.py"))[1:]:
            files[f"configs/{path.parent.parent.name}/{path.name}"] = path
        retain_code(layout, files)
        update_record(layout.environment, {"code": save_code(files, layout.code)})

    world.run_on_main(record_start)
    LOG.debug("%s", account)
    # Memory used by earlier configs of the command does not count.
    start_counting_memory(world.device)
    if any(map(settings.recipe.execute_stage, (1, 2, 3))):
        find_callbacks(settings, folders.recipe)
    if trains(settings):
        # A wrong name is found before any measuring.
        for check in class_checks(settings, folders.recipe):
            check()
        _ = run.augmentation
        pinned = run.pinned_settings()

        def build() -> None:
            # Not returned, since the result would be sent to all ranks.
            folders.build_network(pinned)

        # Building once costs less than measuring a corpus in vain.
        world.run_on_main(build)
    check_requirements(settings, folders, run.lists, world)
    if trains(settings):
        # Last, since a callback may tell somebody that the run has begun.
        run.callbacks()
    # Only now are the modules of the settings, and their imports, loaded.
    world.run_on_main(record_code)


@contextmanager
def end_recorded(layout: Layout, world: World) -> Iterator[None]:
    """Record when and how the block ends, with the peak memory.

    The memory is recorded for all processes, or for the main one if a process failed.
    """
    from asdf.distributed.gpus import peak_memory_mb

    def record(peaks: list[dict[str, float | None]], finished: bool) -> None:
        named = {f"rank {rank}": peak for rank, peak in enumerate(peaks)}
        ended = {"ended": now(), "finished": finished, "peak_memory_mb": named}
        update_record(layout.environment, ended)
        LOG.info("peak memory: %s", describe_peaks(peaks))

    try:
        yield
    except BaseException:
        # The failure itself must be reported, whatever is wrong with the record or the device.
        with suppress(Exception):
            if world.is_main:
                record([peak_memory_mb(world.device)], finished=False)
        raise
    peaks = world.gather(peak_memory_mb(world.device)) or []
    world.run_on_main(partial(record, peaks, finished=True))


def describe_peaks(peaks: list[dict[str, float | None]]) -> str:
    """Return the peak memory for the log, of the processes with the highest on GPU and host."""
    parts = []
    for side, name in (("gpu", "GPU"), ("host", "host")):
        taken = [peak[side] or 0.0 for peak in peaks]
        highest = max(taken, default=0.0)
        if highest:
            rank = f" (rank {taken.index(highest)})" if len(peaks) > 1 else ""
            parts.append(f"{name} {highest / 1000:.2f} GB{rank}")
    return ", ".join(parts)
