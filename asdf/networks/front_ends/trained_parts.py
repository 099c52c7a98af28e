"""The parts of a front end by name, so that some can be trained while the others are frozen.

Invariant: parts are sets of parameter names. Names stay valid when parameters are replaced. A part
without parameters is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from torch import nn

from asdf.errors import UsageError
from asdf.settings.front_end_values import is_pattern, read_layer_range
from asdf.text import and_more, did_you_mean

_SETTING = "front_end.trained_parts"
_SHOWN = 4
_MODEL = "model."
_MASKING = "masking."


class DividedFrontEnd(Protocol):
    """The interface of a front end that its parts need; see `FrontEnd` for each name."""

    model: nn.Module
    layers: int
    encoder_layers: int

    @property
    def masking(self) -> nn.Module | None: ...

    def layer_modules(self) -> Sequence[nn.Module]: ...

    def part_modules(self) -> Mapping[str, Sequence[nn.Module]]: ...

    def unused_parameters(self) -> Iterable[nn.Parameter]: ...


def resting_names(front_end: DividedFrontEnd, parts: tuple[str, ...]) -> frozenset[str]:
    """Return the state dict names of the parameters that are in none of `parts`.

    Raises:
        UsageError: the front end lacks a part, or `front_end.layer` leaves all of it out.
    """
    unused = {id(parameter) for parameter in front_end.unused_parameters()}
    trained: set[str] = set()
    for part in parts:
        named = dict(_named_parameters(front_end, part))
        if not named:
            raise UsageError(_describe_missing(front_end, part))
        used = [name for name, parameter in named.items() if id(parameter) not in unused]
        if not used:
            raise UsageError(
                f"{_SETTING}: front_end.layer leaves out all of {part!r}, so it cannot be trained. "
                f"The front end computes {front_end.layers} of {front_end.encoder_layers} layers."
            )
        trained.update(used)
    return frozenset(name for name, _ in all_parameters(front_end) if name not in trained)


def all_parameters(front_end: DividedFrontEnd) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield name and parameter of everything that `FrontEnd.freeze` affects: model and masks."""
    for prefix, module in ((_MODEL, front_end.model), (_MASKING, front_end.masking)):
        if module is not None:
            for name, parameter in module.named_parameters():
                yield prefix + name, parameter


def _named_parameters(front_end: DividedFrontEnd, part: str) -> Iterator[tuple[str, nn.Parameter]]:
    layers = read_layer_range(part)
    if layers is not None:
        modules = front_end.layer_modules()
        if layers.last is not None and layers.last > len(modules):
            raise UsageError(
                f"{_SETTING}: {part!r}: {type(front_end).__name__} has {len(modules)} encoder "
                "layers, counted from 1."
            )
        indices = layers.indices(len(modules))
        return _parameters_of(front_end, [modules[index] for index in indices])
    if part == "masks":
        return _parameters_of(front_end, filter(None, [front_end.masking]))
    if part == "norms":
        norms = []
        for module in front_end.model.modules():
            # By class name, since libraries have their own layer norms, such as RMS norms.
            if "norm" in type(module).__name__.lower():
                norms.append(module)
        return _parameters_of(front_end, norms)
    named = all_parameters(front_end)
    if part == "biases":
        return ((name, parameter) for name, parameter in named if name.endswith("bias"))
    if is_pattern(part):
        return ((name, parameter) for name, parameter in named if _fits(name, part))
    return _parameters_of(front_end, front_end.part_modules().get(part, ()))


def _parameters_of(
    front_end: DividedFrontEnd, modules: Iterable[nn.Module]
) -> Iterator[tuple[str, nn.Parameter]]:
    wanted = {id(parameter) for module in modules for parameter in module.parameters()}
    for name, parameter in all_parameters(front_end):
        if id(parameter) in wanted:
            yield name, parameter


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name.removeprefix(_MODEL), pattern)


def _describe_missing(front_end: DividedFrontEnd, part: str) -> str:
    names = [name.removeprefix(_MODEL) for name, _ in all_parameters(front_end)]
    if is_pattern(part):
        return (
            f"{_SETTING}: no parameter of {type(front_end).__name__} fits {part!r}."
            f"{did_you_mean(part, names)} Its parameters are {and_more(names, _SHOWN)}."
        )
    return (
        f"{_SETTING}: {type(front_end).__name__} has no part {part!r}. Select its parameters by a "
        f"pattern instead: they are {and_more(names, _SHOWN)}."
    )
