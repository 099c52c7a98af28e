"""`--dry-run`: the plan of a run, with all checks that are possible without running it.

torch is loaded only if a network is trained, to build it and, on a GPU, to take a step with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from asdf.audio.augmentation import open_chain
from asdf.audio.speech import check_detector
from asdf.audio.vocoding import try_vocoders
from asdf.data.sampler_orders import check_sampler, describe_copies, join_with_copies
from asdf.data.training_plan import TrainingPlan, minibatch_per_process
from asdf.distributed.devices import describe_mapping
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.left_out import UsedSets
from asdf.recipe.problems import (
    MEASURES,
    REPORTS,
    SCORES,
    TRAINS,
    Check,
    Problem,
    Stage,
    chosen_stages,
    failures,
)
from asdf.recipe.run_folders import Folders, folders_of, select_networks
from asdf.recipe.used_sets import check_classes, find_overlaps, sets_in_use, trains
from asdf.settings import Configs
from asdf.settings.class_files import is_ours
from asdf.settings.sections import Sections
from asdf.text import count_of, lines_and_more, printable
from asdf.training.callbacks import find_callbacks
from asdf.trials.lists import check_files, check_references
from asdf.trials.trial_list import TrialList, describe_labels, join

# A launch may have hundreds of processes, with one line each.
_SHOWN_DEVICES = 16
_SEE_BELOW = "PROBLEM, see below"
_EPOCHS: dict[int | str, str] = {
    "best": "the best epoch",
    "last": "the last epoch",
    "average": "the average of the best epochs",
}
_DEFAULT_SAMPLER = Sections().recipe.sampler


def dry_run(
    configs: Configs,
    folder: Path,
    corpora: Mapping[str, Corpus],
    stages: Mapping[int, Stage] | None,
    launch: Launch,
) -> list[Problem]:
    """Print the plan of every config, and return the problems that would prevent the runs."""
    plans = []
    problems = []
    for config in configs:
        settings = config.sections()
        try:
            folders = folders_of(settings.paths, folder)
        except UsageError:  # a problem of the settings, which `find_problems` returns
            continue
        plan = Plan(settings, folders, corpora, launch)
        plan.write(stages)
        title = f"config {config.name}: dry run, nothing is computed or written"
        plans.append("\n".join([title, *plan.lines]))
        problems += [Problem(config.name, error) for error in plan.errors]
    print(printable("\n\n".join(plans)), flush=True)
    return problems


class Plan:
    """The plan of a run, line by line, and the problems that would prevent it.

    A problem does not end it: a single run of --dry-run should find all of them.
    """

    def __init__(
        self, settings: Sections, folders: Folders, corpora: Mapping[str, Corpus], launch: Launch
    ) -> None:
        self.settings = settings
        self.folders = folders
        self.corpora = corpora
        self.launch = launch
        # A single process stands for those that run.py would start.
        self.processes = launch.size if launch.size > 1 else settings.computing.processes
        self.lines: list[str] = []
        self.errors: list[AsdfError] = []
        self.sets = UsedSets(settings.recipe, ())

    def write(self, stages: Mapping[int, Stage] | None) -> None:
        """Find missing lists, recordings, weights, classes, networks ..., and write the plan."""
        settings, recipe = self.settings, self.settings.recipe
        devices = partial(describe_mapping, settings.computing, self.launch)
        self._add("devices", devices, _SHOWN_DEVICES)
        lists = self.read_lists()
        self.sets = UsedSets(recipe, lists)
        evaluates_part = recipe.evaluate_left_out and recipe.execute_stage(2)
        leaves_out = bool(recipe.leave_out or recipe.leave_out_speakers) and recipe.execute_stage(1)
        if evaluates_part or leaves_out:
            self._add("left out", self.left_out)
        self._add("batches", self.batches)
        if trains(settings):
            self._add("network", self.network)
        if stages is not None:
            chosen = chosen_stages(recipe, stages)
            self._add("stages", lambda: [line for stage in chosen for line in self.stage(stage)])
        self.errors += failures(self.further_checks(lists))

    def _add(self, title: str, describe: Callable[[], list[str]], shown: int | None = None) -> None:
        self.lines += ["", title]
        try:
            lines = describe()
        except AsdfError as error:
            self.lines.append(f"  {_SEE_BELOW}")
            self.errors.append(error)
        else:
            self.lines.append(lines_and_more(lines, shown or len(lines)).removeprefix("\n"))

    def read_lists(self) -> list[TrialList]:
        """Write about the corpora of the chosen stages, and return the lists that exist."""
        lists: dict[str, TrialList] = {}
        self.lines += ["", "corpora"]
        database = self.folders.database
        parts_of_sets = {name: set_parts(name, self.corpora) for name in sets_in_use(self.settings)}
        for name in dict.fromkeys(chain.from_iterable(parts_of_sets.values())):
            try:
                corpus = find_corpus(name, self.corpora)
                path = corpus.path(database)
                if corpus.make is not None and not path.exists():
                    self.lines.append(f"  {name}: {path} (will be created)")
                    continue
                utterances, notes = corpus.read_with_notes(name, database)
            except AsdfError as error:
                self.lines.append(f"  {name}: {_SEE_BELOW}")
                self.errors.append(error)
                continue
            lists[name] = utterances
            place = path if corpus.list else utterances.folder
            self.lines.append(f"  {name}: {place}: {describe_labels(utterances)}")
            self.lines += [f"    warning: {note}" for note in notes]
        for name, parts in parts_of_sets.items():
            if len(parts) > 1:
                self.lines.append(f"  {name}: these together")
                if all(part in lists for part in parts):
                    lists[name] = join([lists[part] for part in parts])
        overlaps = find_overlaps(list(lists.values()), self.settings.recipe, self.corpora)
        self.lines += [f"  warning: {overlap}" for overlap in overlaps]
        return list(lists.values())

    def left_out(self) -> list[str]:
        """Say what is left out of training, and of the validation and evaluation sets."""
        recipe, sets = self.settings.recipe, self.sets
        lines = []
        if trains(self.settings) and sets.has_training:
            for whole, part in zip(sets.training, sets.trained(), strict=True):
                words = f"without {len(whole) - len(part)} of {len(whole)} utterances"
                lines.append(f"{whole.name}: trained on {words}")
            if sets.left_out is not None:
                lines += sets.left_out.whole_parts(sets.training)
        if not sets.knows_parts:
            return lines
        scored = sets.validated() if recipe.execute_stage(1) else []
        if recipe.evaluate_left_out and recipe.execute_stage(2):
            scored += sets.evaluated()
        return lines + [f"{part.name}: {describe_labels(part)}" for part in scored]

    def batches(self) -> list[str]:
        """Say what a step is, and an epoch if the number of utterances is known.

        Raises:
            UsageError: the number of processes does not divide the global minibatch.
            AsdfError: the sampler does not fit the training sets, or fails.
        """
        settings, network = self.settings, self.settings.network
        minibatch = minibatch_per_process(network, self.processes)
        interval = network.optimizer_step_interval
        plan = TrainingPlan(0, minibatch, interval, self.processes)
        times = f"{count_of(self.processes, 'process')} x {count_of(interval, 'minibatch')} per"
        seconds = settings.lengths.minibatch_s
        if seconds is None:
            size = f"{plan.window_size} utterances per optimiser step"
            lines = [f"minibatch {minibatch} x {times} step = {size}"]
        else:
            size = f"up to {seconds:g} s and {minibatch} utterances"
            lines = [f"minibatches of {size} x {times} optimiser step"]
        if not (self.sets.training and self.sets.has_training):
            return lines
        parts = self.sets.trained()
        turns = check_sampler(settings, parts, self.folders.recipe)
        described = f"{sum(map(len, parts))} training utterances"
        if settings.vocoding.vocoders:
            utterances = join_with_copies(parts, settings)
            copies = describe_copies(utterances)
            described = f"{len(utterances)} training utterances, of which {copies},"
        if settings.recipe.sampler != _DEFAULT_SAMPLER:
            described = f"{turns} turns of the {described} ({settings.recipe.sampler})"
        epochs = f"at most {network.max_epochs} epochs"
        if seconds is not None:
            most = f" and {network.max_steps:,} steps" if network.max_steps else ""
            lines.append(f"{described}, whose lengths decide the steps per epoch; {epochs}{most}")
            return lines
        steps = replace(plan, size=turns).steps_per_epoch()
        total = min(steps * network.max_epochs, network.max_steps or math.inf)
        lines.append(f"{described} = {steps} steps per epoch, {epochs} and {total:,} steps")
        return lines

    def network(self) -> list[str]:
        from asdf.recipe.network_trial import describe_network

        utterances = None
        if self.sets.training and self.sets.has_training:
            # If nothing remains, other paragraphs describe the problem.
            with suppress(AsdfError):
                utterances = join_with_copies(self.sets.trained(), self.settings)
        return describe_network(self.settings, self.folders, self.processes, utterances)

    def stage(self, stage: Stage) -> Iterator[str]:
        """Yield what a stage is, and the work of the framework functions that it calls."""
        settings, recipe, folders = self.settings, self.settings.recipe, self.folders
        resumed = f"epoch {settings.network.resume_epoch}".replace("-", "")  # -N scores epoch N
        yield f"{stage.number}  {stage.summary}"
        if MEASURES in stage.calls:
            names = [*recipe.training_sets, *recipe.validated_sets, *recipe.evaluation_sets]
            yield f"   of {', '.join(dict.fromkeys(names))}"
            yield f"   writes {folders.sad}"
        validation = ", ".join(recipe.validated_sets)
        if TRAINS in stage.calls and settings.network.scores_only:
            yield f"   no training: score {validation} with {resumed}"
            yield f"   writes {folders.layout.scores}"
        elif TRAINS in stage.calls:
            training = ", ".join(recipe.training_sets)
            yield f"   train on {training}, validate on {validation or 'nothing'}"
            if settings.network.initial_network:
                yield f"   begins with {settings.network.initial_network}"
            if settings.front_end.weights:
                yield f"   front end from {settings.front_end.weights}"
                download = folders.describe_download(settings.front_end.weights)
                if download:
                    yield f"   {download}"
            if settings.front_end.cache_features:
                yield f"   its features are saved in {folders.features}"
            yield f"   writes {folders.networks}"
        scored = ", ".join(recipe.evaluation_sets)
        if SCORES in stage.calls:
            selected = resumed if settings.network.scores_only else "the last epoch"
            if recipe.selected_epochs is not None:
                named = [_EPOCHS.get(epoch, f"epoch {epoch}") for epoch in recipe.selected_epochs]
                selected = ", ".join(named)
            yield f"   score {scored} with {selected} of {folders.networks}"
            yield f"   writes {folders.layout.scores}"
        if REPORTS in stage.calls:
            yield f"   of {scored}"
            yield f"   writes {folders.layout.results}"

    def further_checks(self, lists: list[TrialList]) -> Iterator[Check]:
        """Yield the checks for the chosen stages and the classes in the settings."""
        settings, recipe, folder = self.settings, self.settings.recipe, self.folders.recipe
        yield partial(check_classes, lists, settings)
        yield partial(check_files, lists)
        if lists and (recipe.execute_stage(1) or recipe.execute_stage(2)):
            yield partial(self._check_references, lists)
        if trains(settings):
            from asdf.recipe.requirements import class_checks

            yield from class_checks(settings, folder)
            if settings.augmentation.chain:
                yield partial(open_chain, settings, self.folders.database, folder)
            if settings.vocoding.vocoders:
                yield partial(try_vocoders, settings, folder)
        # Without training, the networks must exist already.
        elif recipe.execute_stage(2) or recipe.execute_stage(3):
            yield partial(select_networks, settings, self.folders.layout)
        if settings.network.callbacks and any(map(recipe.execute_stage, (1, 2, 3))):
            yield partial(find_callbacks, settings, folder)
        if settings.sad.mode != "off" and sets_in_use(settings):
            yield partial(check_detector, settings.sad)

    def _check_references(self, lists: list[TrialList]) -> None:
        from asdf.networks.build import find_network_class
        from asdf.networks.interface import takes_references

        class_path = self.settings.network.network_class
        # Ours take none; importing them would load torch.
        if is_ours(class_path):
            return
        if takes_references(find_network_class(class_path, self.folders.recipe)):
            check_references(lists)
