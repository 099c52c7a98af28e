"""The settings of a run: one object in the process, read wherever a recipe needs it.

Invariant: outside a turn of `apply_each` the settings are what init_config.py made them, however
the turn ended; a mistake in any config to come is found before the first one is applied. The
sections stay the same objects throughout, so that a reference that a recipe holds stays valid.
Rooms below the recipes never read this object: they get `snapshot()`, as a spawned process would
see only defaults.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from asdf.settings import explaining
from asdf.settings.catalogue import our_catalogue, section_types
from asdf.settings.config_layers import Config, Step, defaults, final_mistakes, resolve
from asdf.settings.loading import (
    Configs,
    FilePath,
    read_init_config,
    read_points,
    read_run_configs,
)
from asdf.settings.mistakes import (
    RECIPE_CODE,
    Collector,
    Complaint,
    Mistake,
    raise_all,
)
from asdf.settings.sections import (
    Audio,
    Augmentation,
    BackEnd,
    Computing,
    FrontEnd,
    Moments,
    Network,
    Paths,
    RawBoost,
    Recipe,
    Sections,
    Spectrum,
    SpeechActivity,
    Tracking,
    Vocoding,
    assign,
    no_section,
)
from asdf.settings.value_checks import check_value


class Settings:
    """The settings: `Settings(init_config)` once, then `Settings().network.max_epochs` anywhere.

    Without any earlier path `Settings()` holds the defaults; a later call with a path starts afresh
    from that file.

    Args:
        folder: where the user's own modules lie, as of `read_init_config`.

    Raises:
        SettingsError: the file is missing, or has mistakes in it (all of them are named); nothing
            is changed then.

    Examples:
        >>> from asdf.settings import Settings
        >>> settings = Settings("configs/init_config.py")
        >>> settings.network.max_epochs
        3
        >>> overrides = ["network.max_epochs=2"]
        >>> configs = settings.read_configs("configs/run_configs.py", ["small"], overrides)
        >>> for description in settings.apply_each(configs):
        ...     print(Settings().network.max_epochs)  # anywhere in the process
        2
        >>> Settings().network.max_epochs
        3
    """

    paths: Paths
    computing: Computing
    audio: Audio
    network: Network
    front_end: FrontEnd
    spectrum: Spectrum
    moments: Moments
    back_end: BackEnd
    rawboost: RawBoost
    augmentation: Augmentation
    vocoding: Vocoding
    sad: SpeechActivity
    tracking: Tracking
    recipe: Recipe

    _instance: ClassVar[Settings | None] = None
    _initial: Config
    _applied: Config
    _turn: object | None
    _folder: Path | None = None
    declared: dict[str, Any]

    def __new__(
        cls, init_config: FilePath | None = None, folder: FilePath | None = None
    ) -> Settings:
        settings = cls._instance
        if settings is None:
            # The first call in a process makes the object, with the defaults.
            settings = super().__new__(cls)
            for name, kind in section_types().items():
                settings._set(name, kind())
            settings._set("declared", {})
            ours = our_catalogue()
            settings._start(resolve("the defaults", defaults(ours), ours))
            cls._instance = settings
        if init_config is not None:
            modules = Path(folder) if folder else None
            initial = read_init_config(init_config, modules)
            settings._set("_folder", modules)
            settings._start(initial)
        return settings

    def read_configs(
        self,
        run_configs: FilePath,
        names: Iterable[str],
        overrides: Iterable[str] = (),
    ) -> Configs:
        """Read and check the named configs of a file, over init_config and below the overrides.

        Raises:
            SettingsError: names every mistake in these configs, in what they inherit and in the
                overrides, each once.
        """
        return read_run_configs(self._initial, run_configs, names, overrides, self._folder)

    def read_points(
        self,
        run_configs: FilePath,
        names: Iterable[str],
        points: Sequence[Sequence[str]],
        mistakes: Iterable[Mistake] = (),
    ) -> tuple[Configs, ...]:
        """Read the named configs once for each point, that is with its overrides on top.

        Args:
            names: Names of configs, or patterns of them ('base*').
            mistakes: Other mistakes of the command, for the same message.

        Returns:
            For each config in turn a config per point.

        Raises:
            SettingsError: names every mistake, each once.
        """
        return read_points(self._initial, run_configs, names, points, self._folder, mistakes)

    def apply_each(self, configs: Configs) -> Generator[str, None, None]:
        """Apply one config per turn of the loop; after it the settings are init_config.py's again.

        Yields:
            The settings of the config and where each is written, as a text for the log.
        """
        # Two loops may overlap: each knows by its own object whether it is the one in force.
        turn = object()
        try:
            for config in configs:
                self._set("_turn", turn)
                self._apply(config)
                yield explaining.account(config)
        finally:
            # A loop that was left may be closed late, when another one or init_config is in force.
            if self._turn is turn:
                self._start(self._initial)

    def load_settings(
        self,
        run_configs: FilePath,
        names: Iterable[str],
        overrides: Iterable[str] = (),
    ) -> Generator[str, None, None]:
        """Read, check and apply configs: `read_configs`, at once, then `apply_each`.

        Raises:
            SettingsError: as `read_configs`, before the first turn.
        """
        # Not a generator itself: mistakes are raised at the call, before the first turn.
        return self.apply_each(self.read_configs(run_configs, names, overrides))

    def snapshot(self) -> Sections:
        """Return a plain copy of the settings as they are now, with what the recipe's code has set.

        Raises:
            SettingsError: a value set in code does not fit, a path needs a variable that is not
                set, or two settings contradict each other.
        """
        return self._checked().sections()

    def explain(self, what: str | None = None) -> str:
        """Return where the values of a setting or section (None: of all) come from.

        Raises:
            SettingsError: there is no such setting or section.
        """
        return explaining.explain(self._current(), what or "")

    def save(self, path: FilePath) -> None:
        """Write the settings as they are now to a file that `Settings(path)` reads to equal values.

        Raises:
            SettingsError: as `snapshot`.
            AsdfError: the file cannot be written.
        """
        # Imported here: reading settings needs nothing of the rooms for output.
        from asdf.runs.files import write_text

        write_text(path, explaining.render_snapshot(self._checked()))

    def _start(self, initial: Config) -> None:
        self._set("_initial", initial)
        self._set("_turn", None)
        self._apply(initial)

    def _apply(self, config: Config) -> None:
        self._set("_applied", config)
        self._set("declared", {name: kind() for name, kind in config.catalogue.declared.items()})
        assign(self, config.values)

    def _checked(self) -> Config:
        config = self._current()
        raise_all(final_mistakes(config))
        return config

    def _current(self) -> Config:
        """Return what is applied, with what the recipe's code has assigned since as a top layer."""
        applied = self._applied
        collector = Collector()
        log = list(applied.log)
        unchanged = {}
        for name, known in applied.catalogue.settings.items():
            value = attrgetter(name)(self)
            before = applied.values[name]
            # 1 == True: a change of the type is a change as well.
            if value != before or type(value) is not type(before):
                try:
                    log.append(Step(name, check_value(known, value), RECIPE_CODE))
                except Complaint as complaint:
                    written = f"{name} = {value!r}"
                    collector.mistakes.append(complaint.at(RECIPE_CODE, written))
            elif name not in applied.unset:
                unchanged[name] = value
        raise_all(collector.mistakes)
        current = resolve(applied.header, log, applied.catalogue, applied.name)
        # Expanded when the config was read: a variable that has changed since moves no path.
        return replace(current, values={**current.values, **unchanged})

    def _set(self, name: str, value: Any) -> None:
        # Around `__setattr__` below, which refuses a user's assignment to a section.
        object.__setattr__(self, name, value)

    # Hidden from type checkers, which find unknown names by themselves only without them.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: Any) -> NoReturn:
            if name in self._applied.catalogue.sections:
                raise AttributeError(
                    f"'{name}' is a section: assign its settings, such as Settings().{name}.x = ..."
                )
            raise no_section(name, self._applied.catalogue.sections)

        def __getattr__(self, name: str) -> Any:
            if name in self.declared:
                return self.declared[name]
            raise no_section(name, self._applied.catalogue.sections)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "Settings() belongs to its process; hand Settings().snapshot() to another one"
        )
