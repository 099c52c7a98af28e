"""Expressions that build modules: calls as text, and arguments of constructors.

Invariant: a value is written as Python reads it back, or is refused; no content of a network file
becomes code.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from asdf.interchange.portable_reducing import UnportableError
from asdf.networks.front_ends.architectures import Architecture

_WIDTH = 100


@dataclass(frozen=True)
class Call:
    """A call that builds a module; its arguments are texts, or calls themselves.

    Attributes:
        arguments: Pairs of names ('' if positional) and values.
        takes_list: Whether the arguments form one list.
    """

    name: str
    arguments: list[tuple[str, Any]]
    takes_list: bool = False


def render(value: Any, indent: int, begin: str) -> str:
    """Return `begin` and a call as lines of up to 100 columns, indented by `indent` spaces."""
    space = " " * indent
    flat = f"{space}{begin}{flat_text(value)}"
    # Below the limit, since the caller may append a comma.
    if isinstance(value, str) or len(flat) < _WIDTH:
        return flat
    opening = "(["[: 1 + value.takes_list]
    closing = "])"[1 - value.takes_list :]
    items = [item for _, item in value.arguments]
    if len(items) > 1 and value.takes_list and all(item == items[0] for item in items):
        inner = render(items[0], indent + 4, "")
        repeats = f"{space}    for _ in range({len(items)})"
        return f"{space}{begin}{value.name}(\n{inner}\n{repeats}\n{space})"
    lines = [f"{space}{begin}{value.name}{opening}"]
    for name, item in value.arguments:
        lines.append(render(item, indent + 4, _begin(name)) + ",")
    return "\n".join([*lines, f"{space}{closing}"])


def flat_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    arguments = []
    for name, item in value.arguments:
        arguments.append(f"{_begin(name)}{flat_text(item)}")
    inner = ", ".join(arguments)
    return f"{value.name}([{inner}])" if value.takes_list else f"{value.name}({inner})"


def _begin(name: str) -> str:
    return f"{name}=" if name else ""


def arguments_of(module: nn.Module, kind: type) -> list[tuple[str, Any]]:
    """Return the arguments of torch's constructor that made a module.

    Raises:
        UnportableError: the module does not reveal one of them.
    """
    if issubclass(kind, nn.RNNBase):
        return recurrent_arguments(module)
    arguments: list[tuple[str, Any]] = []
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        if name in ("self", "device", "dtype", "args", "kwargs"):
            continue
        value = getattr(module, name, parameter.default)
        # A layer holds its bias as a tensor or None, and its constructor takes a choice.
        if name == "bias" and not isinstance(value, bool):
            value = value is not None
        text = literal(value)
        if text is None:
            raise UnportableError(f"a {kind.__qualname__} does not show its {name}")
        # A number for a convolution stands for all of its dimensions.
        is_spread = isinstance(value, tuple) and set(value) == {parameter.default}
        if is_spread or value is parameter.default or value == parameter.default:
            continue
        is_first = parameter.default is inspect.Parameter.empty
        arguments.append(("" if is_first else name, text))
    return arguments


def recurrent_arguments(module: nn.Module) -> list[tuple[str, Any]]:
    sizes = ("input_size", "hidden_size", "num_layers", "bias")
    names = (*sizes, "batch_first", "dropout", "bidirectional")
    return [(name, repr(getattr(module, name))) for name in names]


def encoder_arguments(architecture: Architecture, dropout: float) -> list[tuple[str, Any]]:
    arguments = {
        "extractor_mode": architecture.extractor_mode,
        "extractor_conv_layer_config": [tuple(layer) for layer in architecture.conv_layers],
        "extractor_conv_bias": architecture.conv_bias,
        "encoder_embed_dim": architecture.dimension,
        "encoder_projection_dropout": dropout,
        "encoder_pos_conv_kernel": architecture.pos_conv_kernel,
        "encoder_pos_conv_groups": architecture.pos_conv_groups,
        "encoder_num_layers": architecture.layers,
        "encoder_num_heads": architecture.heads,
        "encoder_attention_dropout": dropout,
        "encoder_ff_interm_features": architecture.feed_forward,
        "encoder_ff_interm_dropout": dropout,
        "encoder_dropout": dropout,
        "encoder_layer_norm_first": architecture.layer_norm_first,
        "encoder_layer_drop": 0.0,
        "aux_num_out": None,
    }
    if architecture.relative_positions:
        arguments["encoder_num_buckets"] = architecture.relative_positions[0]
        arguments["encoder_max_distance"] = architecture.relative_positions[1]
    return [(name, repr(value)) for name, value in arguments.items()]


def zeros(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.shape)) or "()"
    kind = "" if tensor.dtype is torch.float32 else f", dtype={tensor.dtype}"
    return f"torch.zeros({sizes}{kind})"


def literal(value: Any, accessed: Iterable[str] = ()) -> str | None:
    """Return the text of a plain value, or of those fields of an object that code reads."""
    if value is None or isinstance(value, bool | int | float | str | range):
        return repr(value)
    if isinstance(value, tuple | list | frozenset):
        items = [literal(item, accessed) for item in value]
        if any(item is None for item in items):
            return None
        inner = ", ".join(str(item) for item in items)
        if isinstance(value, list):
            return f"[{inner}]"
        if isinstance(value, frozenset):
            return f"frozenset([{inner}])"
        return f"({inner},)" if len(items) == 1 else f"({inner})"
    if is_dataclass(value) and not isinstance(value, type):
        texts = []
        names = [each.name for each in fields(value)]
        names += [name for name, each in vars(type(value)).items() if isinstance(each, property)]
        for name in names:
            if name in accessed:
                text = literal(getattr(value, name), accessed)
                if text is not None:
                    texts.append(f"{name}={text}")
        return f"SimpleNamespace({', '.join(texts)})"
    return None
