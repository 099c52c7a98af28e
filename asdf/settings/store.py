"""The settings of a run: one object in the process, read wherever a recipe needs it.

Invariant: outside a turn of `load_settings` the settings are what init_config.py made them, however the turn ended;
a mistake in any config to come is found before the first one is applied. The sections stay the same objects all
along, so that a reference that a recipe keeps does not go stale.
Rooms below the recipes never read this object: they get `snapshot()`, as a spawned process would see only defaults.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from asdf.settings import provenance
from asdf.settings.catalogue import catalogue, section_types
from asdf.settings.checks import check_value
from asdf.settings.layers import Resolved, Step, defaults, final_mistakes, resolve, to_sections
from asdf.settings.loading import FilePath, read_init_config, read_run_configs
from asdf.settings.mistakes import RECIPE_CODE, Collector, UnknownName, nearest, raise_all
from asdf.settings.sections import (
    Augmentation,
    BackEnd,
    Computing,
    FrontEnd,
    Network,
    Paths,
    RawBoost,
    Recipe,
    Sections,
    SpeechActivity,
)


class Settings:
    """`Settings(path_to_init_config)` once, then `Settings().network.minibatch_size` anywhere in a recipe.

    Without any earlier path `Settings()` holds the defaults; a later call with a path starts afresh from that file.

    Raises:
        SettingsError: the file is missing, or has mistakes in it (all of them are named); nothing is changed then.
    """

    paths: Paths
    computing: Computing
    network: Network
    front_end: FrontEnd
    back_end: BackEnd
    rawboost: RawBoost
    augmentation: Augmentation
    sad: SpeechActivity
    recipe: Recipe

    _instance: ClassVar[Settings | None] = None
    _initial: Resolved
    _applied: Resolved
    _turn: object | None

    def __new__(cls, init_config: FilePath | None = None) -> Settings:
        settings = cls._instance
        if settings is None:
            settings = super().__new__(cls)
            for name, kind in section_types().items():
                settings._set(name, kind())
            settings._start(resolve("the defaults", defaults()))
            cls._instance = settings
        if init_config is not None:
            settings._start(read_init_config(init_config))
        return settings

    def load_settings(
        self, run_configs: FilePath, names: Iterable[str], overrides: Iterable[str] = ()
    ) -> Generator[str, None, None]:
        """Apply one config for each turn of the loop; yields its settings and their places as a printable text.

        The files are read once, here: what is edited while a config runs does not reach the next one.

        Raises:
            SettingsError: as `check`, before the first turn.
        """
        return self._turns(read_run_configs(self._initial, run_configs, names, overrides))

    def check(
        self, run_configs: FilePath, names: Iterable[str], overrides: Iterable[str] = ()
    ) -> None:
        """Find every mistake in these configs, in what they inherit and in the overrides.

        Raises:
            SettingsError: names all mistakes, each once.
        """
        read_run_configs(self._initial, run_configs, names, overrides)

    def snapshot(self) -> Sections:
        """A plain copy of the settings as they are now, values set by the recipe's code among them.

        Raises:
            SettingsError: a value set in code does not fit, a path needs a variable that is not set, or two
                settings contradict each other.
        """
        config = self._current()
        raise_all(final_mistakes(config))
        return to_sections(config.values)

    def explain(self, what: str | None = None) -> str:
        """Where the values of a setting or section (None: of all) come from, in the config that is applied now.

        Raises:
            SettingsError: there is no such setting or section.
        """
        return provenance.explain(self._current(), what or "")

    def save(self, path: FilePath) -> None:
        """Write the settings as they are now to a file that `Settings(path)` reads back to equal values.

        Raises:
            SettingsError: as `snapshot`.
            AsdfError: the file cannot be written.
        """
        # Imported here: reading settings needs nothing of the rooms for output.
        from asdf.runs.files import write_text

        self.snapshot()
        write_text(path, provenance.render_snapshot(self._current()))

    def _start(self, initial: Resolved) -> None:
        self._set("_initial", initial)
        self._set("_turn", None)
        self._apply(initial)

    def _apply(self, config: Resolved) -> None:
        self._set("_applied", config)
        for name, value in config.values.items():
            section, _, setting = name.partition(".")
            setattr(getattr(self, section), setting, value)

    def _turns(self, configs: list[Resolved]) -> Generator[str, None, None]:
        turn = object()
        try:
            for config in configs:
                self._set("_turn", turn)
                self._apply(config)
                yield provenance.account(config)
        finally:
            # An abandoned loop may be closed late, when another one or another init_config is in force.
            if self._turn is turn:
                self._start(self._initial)

    def _current(self) -> Resolved:
        """What is applied, with what the recipe's code has assigned since as a further layer."""
        found = Collector()
        log, kept = list(self._applied.log), {}
        for name, known in catalogue().items():
            value = getattr(getattr(self, known.section), known.name)
            if value != self._applied.values[name] or type(value) is not type(
                self._applied.values[name]
            ):
                fitted = found.attempt(
                    partial(check_value, known, value), RECIPE_CODE, f"{name} = {value!r}"
                )
                log.append(Step(name, fitted, RECIPE_CODE))
            elif name not in self._applied.unset:
                kept[name] = value
        raise_all(found.mistakes)
        current = resolve(self._applied.header, log)
        return replace(current, values={**current.values, **kept})

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    # Hidden from type checkers, which find an unknown name by themselves as long as these are not in their way.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            if name in section_types():
                raise AttributeError(
                    f"'{name}' is a section: assign its settings, such as Settings().{name}.x = ..."
                )
            raise UnknownName(f"there is no section '{name}'{nearest(name, section_types())}")

        def __getattr__(self, name: str) -> NoReturn:
            raise UnknownName(f"there is no section '{name}'{nearest(name, section_types())}")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Settings() belongs to its process; hand Settings().snapshot() to another one"
        )
