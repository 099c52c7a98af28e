"""Parts that training added to a network, as they come back from a file.

Invariant: a file names the part's class: only ours, or one in a folder that the caller names, is
imported. A part of ours is built only if the file brings its numbers, so a small file that claims
a huge part takes no memory; and the caller's random state does not advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from asdf.errors import AsdfError
from asdf.interchange.building import check_folder
from asdf.interchange.fitting import check_layers
from asdf.networks.without_numbers import without_numbers
from asdf.settings.class_path import describe_error, find_class

Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class PartKind(Generic[Part]):
    """A kind of part.

    Attributes:
        base: Class that all of its classes derive from.
        room: Package under whose name a file states those that are ours.
        prefix: Prefix of the names of its layers in a file.
        what: Name of the part in messages.
        setting: Setting that names its class.
        advice: Advice for a user whose file does not fit.
    """

    base: type[Part]
    room: str
    prefix: str
    what: str
    setting: str
    advice: str

    def class_path(self, part: Part) -> str:
        """Return the class path by which a file names the class of a part."""
        kind = type(part)
        # Ours by the room: the file of a class is nothing to rely on.
        is_ours = kind.__module__.startswith("asdf.")
        return f"{self.room if is_ours else kind.__module__}.{kind.__qualname__}"

    def without(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the layers of a file without those of the part."""
        return {name: each for name, each in state.items() if not name.startswith(self.prefix)}

    def build(
        self,
        class_path: str,
        make: Callable[[type[Part]], Part],
        state: Mapping[str, Any],
        source: str,
        folder: Path | None,
    ) -> Part:
        """Return the part of a file; its numbers are not loaded.

        Args:
            make: Function that makes a part of its class.
            state: Layers of the file.
            source: Name of the file in messages.
            folder: Folder that holds the module of a user's own class.

        Raises:
            AsdfError: the class is neither ours nor in `folder`, a layer is missing or has another
                shape, or the class cannot be built.
        """
        is_ours = class_path.rpartition(".")[0] == self.room
        if not is_ours:
            check_folder(class_path, folder, source)
        kind = find_class(class_path, folder, f"in {source}: {self.setting}", self.base)
        try:
            if is_ours:
                with without_numbers():
                    layers = make(kind).state_dict()
                shapes = {f"{self.prefix}{name}": layer.shape for name, layer in layers.items()}
                held = {name: each for name, each in state.items() if name.startswith(self.prefix)}
                check_layers(shapes, held, class_path, source, self.advice)
            with torch.random.fork_rng(devices=[]):
                return make(kind)
        except AsdfError:
            raise
        except Exception as error:
            raise AsdfError(
                f"the {self.what} of {source}, {kind.__qualname__}, cannot be built: "
                f"{describe_error(error, __file__)}. {self.advice}"
            ) from error
