"""The content of ASDF's network files: weights, settings that build the network, its training.

Invariant: entries have the keys that ASDF has always written, defined only in this file, since
other programs read them. Unknown entries, for example of a newer version, are preserved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from asdf.checkpoint.attached_parts import describe_heads, describe_loss
from asdf.checkpoint.base_weights import base_of
from asdf.checkpoint.weights_file import OUR_KEY, check_names, write_weights_file
from asdf.errors import AsdfError
from asdf.networks.attached import PREFIX
from asdf.networks.build import self_contained
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.removed import ANY, SETTINGS, class_has_left, setting_has_left
from asdf.runs.log import LOG
from asdf.settings.catalogue import (
    Known,
    class_path_of,
    class_settings,
    name_today,
    our_catalogue,
    section_types,
)
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import module_file
from asdf.settings.declared import declared_by
from asdf.settings.mistakes import Complaint
from asdf.settings.sections import OF_EXTRAS, Sections, assign
from asdf.settings.value_checks import check_value
from asdf.text import shorten

FORMAT = "asdf"
VERSION = 1
NETWORK_SECTIONS = (
    *("audio", "front_end", "spectrum", *OF_EXTRAS),
    *("back_end", "lora", "localisation"),
)
"""Sections of settings that determine how the project's classes are built."""

ORIGINAL_NUMBERS = ("training_loss", "consecutive_lr_updates")
"""Two numbers that the original ASDF expects, and once saved among the weights."""

# The keys of a file by attribute of `NetworkFile`, in the order in which they are written.
_OTHER_KEYS = {
    "state": OUR_KEY,
    "optimiser_state": "optimizer_state_dict",
    "scaler_state": "scaler_state_dict",
    "unaveraged_state": "unaveraged_state_dict",
    "step_state": "training_step",
}
_ATTRIBUTES = (
    *("format", "version", "network_class", "loss", "sources", "heads", "settings", "base"),
    *("pretrained", "merged", "state", "optimiser_state", "scaler_state", "unaveraged_state"),
    *("step_state", "progress", "calibration", "evaluation", "averaged"),
)
_KEYS = {attribute: _OTHER_KEYS.get(attribute, attribute) for attribute in _ATTRIBUTES}
# Entries that a description leaves out: the weights, and states for resuming the training.
_LEFT_OUT = ("base", "progress", *_OTHER_KEYS.values())
_DESCRIPTION = tuple(key for key in _KEYS.values() if key not in _LEFT_OUT)


class OtherLayoutError(AsdfError):
    """The file is not a network of ASDF, but possibly a detector of another program."""


@dataclass
class NetworkFile:
    """A network with the content of its file; what a file lacks is None.

    Attributes:
        state: Weights, by the names of the network's layers.
        format: Format of the file: 'asdf' for ours; None for those of the original ASDF.
        network_class: Class path of the network.
        loss: Description of an attached loss (`attached_parts`).
        sources: Description of the head for source tracing, from `describe_heads`.
        heads: Descriptions of other tasks' heads, by key.
        settings: Settings of all sections as plain values, by section and name.
        base: Pretrained weights with the layers that `state` lacks; None if it has all.
        pretrained: Repository and commit on the hub of the weights that training began with; None
            without one.
        merged: Section `lora` of a network whose updates are merged into its weights.
        optimiser_state, scaler_state, progress: States for resuming the training.
        unaveraged_state: Weights from which training continues, if `state` holds moving averages
            (`asdf.training.gradients`).
        calibration: Map from scores to log-likelihood ratios.
        evaluation: Error rates that were measured.
        averaged: Names of the files whose weights were averaged.
        others: Further entries, by key.
        path: Path that it was read from, for messages.
        step_state: State of a user's training step (`asdf.training.steps`).

    Examples:
        >>> from asdf.interchange import read_network
        >>> _, file = read_network("network.pt")
        >>> file.network_class, file.format, file.calibration is None
        ('asdf.networks.AASIST_L', 'asdf', True)
        >>> file.settings["network"]["network_class"]
        'asdf.networks.AASIST_L'
    """

    state: dict[str, Any]
    format: str | None = None
    version: int | None = None
    network_class: str | None = None
    loss: dict[str, Any] | None = None
    sources: dict[str, Any] | None = None
    heads: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    base: Any = None
    pretrained: Any = None
    merged: Any = None
    optimiser_state: dict[str, Any] | None = None
    scaler_state: dict[str, Any] | None = None
    unaveraged_state: dict[str, Any] | None = None
    progress: Any = None
    calibration: Any = None
    evaluation: Any = None
    averaged: list[str] | None = None
    others: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    step_state: dict[str, Any] | None = None

    @classmethod
    def from_network(cls, network: nn.Module, settings: Sections, **entries: Any) -> NetworkFile:
        """Return the file content common to all networks, with further `entries`.

        Raises:
            AsdfError: a front end's pretrained weights have not been loaded.
        """
        front_ends = [module for module in network.modules() if isinstance(module, FrontEnd)]
        for front_end in front_ends:
            # Such a file would claim pretrained weights but hold random ones.
            front_end.check_loaded()
        pretrained = {front_end.pretrained for front_end in front_ends}
        contained = self_contained(settings.front_end, network)
        # The file has all weights, and the initial network is a path on some machine.
        trained = replace(settings.network, initial_network=None)
        state = network.state_dict()
        heads = describe_heads(network)
        base = base_of(network)
        if base is not None:
            entries["base"] = base.entry()
            for name in base.names:
                del state[name]
        return cls(
            state=state,
            format=FORMAT,
            version=VERSION,
            network_class=settings.network.network_class,
            loss=describe_loss(network),
            sources=heads.pop("sources", None),
            heads=heads or None,
            settings=replace(settings, front_end=contained, network=trained).plain(),
            # With several front ends of different origin, no repository is named.
            pretrained=pretrained.pop() if len(pretrained) == 1 else None,
            **entries,
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any], path: Path) -> NetworkFile:
        """Return the entries of a file from its dictionary.

        Raises:
            AsdfError: it has no weights, or layers without names.
        """
        if not isinstance(content.get(OUR_KEY), dict):
            raise OtherLayoutError(
                f"{path} is not a network of ASDF: it has no '{OUR_KEY}'. If it is a detector of "
                f"another program, convert it first: python -m asdf import {path} OUT"
            )
        if "parts" in content:
            raise AsdfError(
                f"{path} was saved in parts (computing.shard_checkpoints), which ASDF no longer "
                "does: end its training with the version that began it, which joins them."
            )
        check_names(content[OUR_KEY], path)
        entries: dict[str, Any] = {attribute: content.get(key) for attribute, key in _KEYS.items()}
        if not isinstance(entries["settings"], dict):
            entries["settings"] = None
        known = _KEYS.values()
        others = {key: value for key, value in content.items() if key not in known}
        return cls(**entries, others=others, path=path)

    @classmethod
    def from_description(
        cls, description: Mapping[str, Any], state: dict[str, Any], path: Path
    ) -> NetworkFile:
        """Return the file for a `description`, as made by `description()`, and the weights."""
        return cls.from_content({**description, OUR_KEY: state}, path)

    @property
    def is_described(self) -> bool:
        """Whether the file states which network the weights belong to."""
        return self.format == FORMAT and self.settings is not None

    @property
    def all_heads(self) -> dict[str, Any]:
        """The entries of all tasks' heads, by key."""
        heads = self.heads if isinstance(self.heads, dict) else {}
        return heads if self.sources is None else {"sources": self.sources, **heads}

    def content(self) -> dict[str, Any]:
        """Return the dictionary to write, by the keys of a file."""
        entries: dict[str, Any] = {}
        for attribute, key in _KEYS.items():
            value = getattr(self, attribute)
            if value is not None:
                entries[key] = value
        # The original ASDF expects them at the top level of the file.
        if isinstance(self.progress, Mapping):
            for name in ORIGINAL_NUMBERS:
                if name in self.progress:
                    entries[name] = self.progress[name]
        # Preserve a newer version's entries, for example if an old ASDF calibrates the file.
        return entries | self.others

    def description(self) -> dict[str, Any]:
        """Return how the network is built and what is known of it, without weights and training."""
        content = self.content()
        entries = {key: content[key] for key in _DESCRIPTION if key in content}
        if self.settings is not None:
            # Without paths, which reveal user names and folders of a cluster.
            sections = {name: values for name, values in self.settings.items() if name != "paths"}
            entries["settings"] = sections
        return entries

    def training_keys(self) -> list[str]:
        """Return the keys of entries that are neither weights nor facts about the network."""
        return [str(key) for key in self.content() if key not in (*_DESCRIPTION, OUR_KEY)]

    def with_weights(self, state: dict[str, Any], averaged: list[str]) -> NetworkFile:
        """Return a file of the same network with other weights, the mean of those `averaged`.

        Everything learned or measured with the weights of this file is left out.
        """
        return replace(
            self.without_training(),
            state=state,
            averaged=averaged,
            merged=None,
            calibration=None,
            evaluation=None,
            others={},
        )

    def without_training(self) -> NetworkFile:
        """Return a file of the same network without the states for resuming its training."""
        return replace(
            self,
            optimiser_state=None,
            scaler_state=None,
            unaveraged_state=None,
            step_state=None,
            progress=None,
        )

    def whole(self, state: dict[str, Any], updates_merged: bool) -> NetworkFile:
        """Return a file of the same network with all of its layers, from `state`.

        Args:
            updates_merged: Whether `state` includes LoRA's updates, unlike the file's own weights.
        """
        # A loss without scores is not part of a restored network.
        losses = {name: value for name, value in self.state.items() if name.startswith(PREFIX)}
        file = replace(self, state={**losses, **state}, base=None)
        if updates_merged and self.settings is not None:
            lora = self.settings.get("lora", {})
            file.merged = lora
            file.settings = {**self.settings, "lora": {**lora, "rank": 0}}
            # These belong to the updates.
            file.optimiser_state = None
            file.scaler_state = None
        return file

    def to_sections(
        self,
        base: Sections | None = None,
        names: Collection[str] | None = None,
        folder: Path | None = None,
    ) -> Sections:
        """Return the file's settings over `base`, or over the defaults.

        Unknown settings are ignored with a warning.

        Args:
            names: Sections to take from the file; None for all.
            folder: Folder with the modules of the user's classes, which may declare sections.

        Raises:
            AsdfError: a value does not fit its setting.
        """
        start = base or Sections()
        declared = {name: type(section) for name, section in start.declared.items()}
        if folder is not None:
            declared |= self._declared_in(folder)
        catalogue = our_catalogue().with_sections(declared)
        sections = replace(start, declared=dict(start.declared))
        for name, kind in catalogue.sections.items():
            start_values = vars(getattr(start, name)) if hasattr(start, name) else {}  # a copy's
            if name in section_types():
                setattr(sections, name, kind(**start_values))
            else:
                sections.declared[name] = kind(**start_values)
        # Unlike in a config, what has no part in scoring is no error: nobody can fix weights.
        unknown = []
        for full_name, value in self._values(names):
            plain = tuple(value) if isinstance(value, list) else value  # as lists in safetensors
            if full_name in ("recipe.sampler", "network.schedule") and class_has_left(str(value)):
                LOG.warning("%s: %s: %s", self.path, full_name, class_has_left(str(value)))
            elif full_name in catalogue.settings:
                assign(sections, {full_name: self._checked(catalogue.settings[full_name], value)})
            elif full_name not in SETTINGS:
                unknown.append(full_name)
            elif SETTINGS[full_name].default not in (ANY, plain):
                left = f"{self.path} has {full_name} = {value!r}. {setting_has_left(full_name)}"
                if SETTINGS[full_name].scores:
                    raise AsdfError(left)
                LOG.warning("%s", left)
        if unknown and not self._others_classes():
            LOG.warning(
                "%s was written by a newer ASDF; settings not known here are ignored: %s",
                self.path,
                ", ".join(unknown),
            )
        return sections

    def _others_classes(self) -> list[tuple[str, str]]:
        """Return the settings that name classes outside the project, and these classes."""
        classes: list[tuple[str, str]] = []
        for setting, value in self._values(None):
            if setting in class_settings() and isinstance(value, str | list | tuple):
                texts = [value] if isinstance(value, str) else value
                # Short names are the project's, even if they stand for classes of torch.
                paths = [text for text in texts if class_path_of(setting, str(text)) == text]
                classes += [(setting, path) for path in paths if not is_ours(path)]
        return classes

    def _declared_in(self, folder: Path) -> dict[str, type]:
        """Return the sections declared by classes of the file whose modules are in `folder`."""
        declared: dict[str, type] = {}
        for setting, class_path in self._others_classes():
            # Modules elsewhere are not imported, since a file may not choose which code runs.
            if module_file(class_path.rpartition(".")[0], folder):
                kind = declared_by(class_path, setting, folder)
                if kind is not None:
                    declared[kind.section_name] = kind
        return declared

    def _values(self, sections: Collection[str] | None) -> list[tuple[str, Any]]:
        """Return full names and values of the settings in the file."""
        values: list[tuple[str, Any]] = []
        for section, names in (self.settings or {}).items():
            is_wanted = sections is None or section in sections
            if is_wanted and isinstance(names, Mapping):
                for name, value in names.items():
                    values.append((name_today(f"{section}.{name}", str(self.path)), value))
        return values

    def _checked(self, known: Known, value: Any) -> Any:
        try:
            return check_value(known, value)
        except Complaint as complaint:
            reason = shorten(complaint.text.rstrip("."), 500)
            raise AsdfError(
                f"the network {self.path} was made with {known.full} = {shorten(repr(value))}, "
                f"which this ASDF does not accept: {reason}. The file is damaged, or was written "
                "by a newer ASDF: then update yours."
            ) from None


def write_network_file(path: str | Path, file: NetworkFile) -> None:
    """Write `file` to `path` atomically.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; an existing file at `path` is
            unchanged.
    """
    write_weights_file(Path(path), file.content())
