"""The settings of a run: one object per process, readable anywhere in a recipe.

Invariant: outside an iteration of `apply_each`, the settings are those of init_config.py, however
the iteration ended; mistakes in any config are found before the first one is applied. The sections
stay the same objects throughout, so a recipe's reference to one stays valid. Rooms below the
recipes never read this object: they get `snapshot()`, since a spawned process would see only
defaults.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from asdf.settings import explaining
from asdf.settings.catalogue import our_catalogue, section_types
from asdf.settings.config_layers import Config, Step, defaults, final_mistakes, resolve
from asdf.settings.loading import Configs, FilePath, FilePaths, read_init_config, read_points
from asdf.settings.mistakes import RECIPE_CODE, Collector, Mistake, raise_all
from asdf.settings.sections import Sections, assign, no_section
from asdf.settings.value_checks import check_value

# Type checkers know the sections by it; the object itself has those of its config.
if TYPE_CHECKING:
    from asdf.settings.sections import Sections as _Base
else:
    _Base = object


class Settings(_Base):
    """The settings: `Settings(init_config)` once, then `Settings().network.max_epochs` anywhere.

    Without an earlier path, `Settings()` holds the defaults; a later call with a path starts afresh
    from that file.

    Args:
        folder: Folder of the user's own modules, as in `read_init_config`.

    Raises:
        SettingsError: the file is missing or has mistakes, which are all named; nothing is changed.

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

    _instance: ClassVar[Settings | None] = None
    _initial: Config
    _applied: Config
    _turn: object | None
    _folder: Path | None = None

    def __new__(
        cls, init_config: FilePath | None = None, folder: FilePath | None = None
    ) -> Settings:
        settings = cls._instance
        if settings is None:
            # The first call in a process creates the object, with the defaults.
            settings = super().__new__(cls)
            for name, kind in section_types().items():
                settings._set(name, kind())
            ours = our_catalogue()
            settings._start(resolve("the defaults", defaults(ours), ours))
            cls._instance = settings
        if init_config is not None:
            modules = Path(folder) if folder else None
            # Read first, so that a file with mistakes changes nothing.
            initial = read_init_config(init_config, modules)
            settings._set("_folder", modules)
            settings._start(initial)
        return settings

    def read_configs(
        self, run_configs: FilePaths, names: Iterable[str], overrides: Iterable[str] = ()
    ) -> Configs:
        """Read and check the named configs, above init_config and below the overrides.

        Args:
            run_configs: File of the configs, or several, which may inherit from each other's.

        Raises:
            SettingsError: there are mistakes in these configs, their parents or the overrides; each
                is named once.
        """
        points = self.read_points(run_configs, names, [list(overrides)])
        return tuple(chain.from_iterable(points))

    def read_points(
        self,
        run_configs: FilePaths,
        names: Iterable[str],
        points: Sequence[Sequence[str]],
        mistakes: Iterable[Mistake] = (),
    ) -> tuple[Configs, ...]:
        """Read the named configs once for each point, with its overrides on top.

        Args:
            names: Names of configs, or patterns of names ('base*').
            mistakes: Other mistakes of the command, to include in the same message.

        Returns:
            Configs of each name in turn, one per point.

        Raises:
            SettingsError: there are mistakes; each is named once.
        """
        return read_points(self._initial, run_configs, names, points, self._folder, mistakes)

    def apply_each(self, configs: Configs) -> Generator[str, None, None]:
        """Apply one config per iteration; afterwards the settings are init_config.py's again.

        Yields:
            Settings of the config and the origin of each, as a text for the log.
        """
        # Two loops may overlap: each checks by its own object whether it is the active one.
        turn = object()
        try:
            for config in configs:
                self._set("_turn", turn)
                self._apply(config)
                yield explaining.account(config)
        finally:
            # An abandoned loop may be closed late, when another one or init_config is active.
            if self._turn is turn:
                self._start(self._initial)

    def load_settings(
        self, run_configs: FilePaths, names: Iterable[str], overrides: Iterable[str] = ()
    ) -> Generator[str, None, None]:
        """Read, check and apply configs: `read_configs`, immediately, then `apply_each`.

        Raises:
            SettingsError: as in `read_configs`, before the first iteration.
        """
        # Not a generator itself, so that mistakes are raised at the call.
        return self.apply_each(self.read_configs(run_configs, names, overrides))

    def snapshot(self) -> Sections:
        """Return a plain copy of the current settings, including those that the recipe's code set.

        Raises:
            SettingsError: a value set in code does not fit, a path needs an unset variable, or two
                settings contradict each other.
        """
        return self._checked().sections()

    def explain(self, what: str | None = None) -> str:
        """Return the origin of the values of a setting or section; None for all settings.

        Raises:
            SettingsError: the setting or section does not exist.
        """
        return explaining.explain(self._current(), what or "")

    def save(self, path: FilePath) -> None:
        """Write the current settings to a file that `Settings(path)` reads to equal values.

        Raises:
            SettingsError: as in `snapshot`.
            AsdfError: the file cannot be written.
        """
        # Imported here, since reading settings does not need the rooms for output.
        from asdf.runs.files import write_text

        write_text(path, explaining.render_snapshot(self._checked()))

    def _start(self, initial: Config) -> None:
        self._set("_initial", initial)
        # Loops that are still open must not restore their settings over these.
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
        """Return the active config, with later assignments of the recipe's code as a top layer."""
        applied = self._applied
        collector = Collector()
        log = list(applied.log)
        unchanged = {}
        for name, known in applied.catalogue.settings.items():
            value = attrgetter(name)(self)
            before = applied.values[name]
            # 1 == True, so a change of type is also compared.
            if value != before or type(value) is not type(before):
                with collector.collecting(RECIPE_CODE, f"{name} = {value!r}"):
                    log.append(Step(name, check_value(known, value), RECIPE_CODE))
            elif name not in applied.unset:
                unchanged[name] = value
        raise_all(collector.mistakes)
        current = resolve(applied.header, log, applied.catalogue, applied.name)
        # Paths were expanded when the config was read, so later changes of variables do not count.
        return replace(current, values={**current.values, **unchanged})

    def _set(self, name: str, value: Any) -> None:
        # Bypass `__setattr__` below, which rejects a user's assignment to a section.
        object.__setattr__(self, name, value)

    # Hidden from type checkers, which report unknown names only without them.
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
            "Settings() cannot be sent to another process; pass Settings().snapshot() instead"
        )
