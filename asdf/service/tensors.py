"""Tensors of the open inference protocol (v2), as JSON and in its extension for binary data.

Invariant: a tensor is accepted only if its type, shape and number of bytes agree; sizes in a
request allocate no memory before they are checked.

The protocol is KServe's, https://kserve.github.io/website (Open Inference Protocol); the extension
is Triton's ("binary_tensor_data").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asdf.service.limits import Refusal

HEADER_LENGTH = "inference-header-content-length"
BINARY = "binary_tensor_data"
BYTES = "BYTES"
_TYPES: dict[str, np.dtype[Any]] = {
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
}
MAX_JSON = 2**23
"""Maximum size of JSON, in bytes: 40 s of a waveform as a list of numbers."""

_MAX_DIGITS = 12
# Errors from entries of other types than the protocol's.
_MALFORMED = (
    *(ValueError, LookupError, TypeError),
    *(AttributeError, ArithmeticError, RecursionError),
)
_MAX_TENSORS = 8
_MAX_AXES = 4


@dataclass(frozen=True)
class Request:
    """A request for an inference.

    Attributes:
        inputs: Tensors by name.
        parameters: Parameters of the request.
        outputs: Whether each requested output is binary, by name; None: all are requested.
        are_binary: Whether outputs are binary by default.
        identity: Identity that the answer repeats; None without one.
    """

    inputs: Mapping[str, np.ndarray]
    parameters: Mapping[str, Any]
    outputs: Mapping[str, bool] | None
    are_binary: bool
    identity: str | None


def read_request(body: bytes, header_length: str | None) -> Request:
    """Read the body of a request.

    Args:
        header_length: Number of its bytes that are JSON, from its header; None: all.

    Raises:
        Refusal: 400, it is not a valid request.
    """
    length = len(body)
    if header_length is not None:
        # Limited, since int() raises for thousands of digits.
        is_number = header_length.isdecimal() and len(header_length) <= _MAX_DIGITS
        if not is_number or int(header_length) > len(body):
            raise _bad(f"{HEADER_LENGTH}: {header_length[:20]!r} is not a length of this request")
        length = int(header_length)
    if length > MAX_JSON:
        raise Refusal(
            413,
            f"{length:,} bytes of JSON; the limit is {MAX_JSON:,}. Send tensors as binary data "
            f"({BINARY}), as the clients do by default.",
        )
    try:
        document = json.loads(body[:length])
        inputs = document["inputs"]
        parameters = document.get("parameters") or {}
        outputs = document.get("outputs")
        identity = document.get("id")
        if not all(
            (
                isinstance(inputs, list) and len(inputs) <= _MAX_TENSORS,
                isinstance(parameters, dict),
                outputs is None or (isinstance(outputs, list) and len(outputs) <= _MAX_TENSORS),
                identity is None or isinstance(identity, str),
            )
        ):
            raise _bad("its entries do not have the protocol's types")
        are_binary = parameters.get("binary_data_output") is True
        wanted = None if not outputs else _read_outputs(outputs, are_binary)
        tensors = _read_tensors(inputs, body, length)
    except _MALFORMED as error:
        raise _bad(str(error) or type(error).__name__) from None
    return Request(tensors, parameters, wanted, are_binary, identity)


def _read_outputs(outputs: list[Any], are_binary: bool) -> dict[str, bool]:
    wanted = {}
    for output in outputs:
        stated = (output.get("parameters") or {}).get("binary_data", are_binary)
        wanted[str(output["name"])] = stated is True
    return wanted


def _read_tensors(inputs: list[Any], body: bytes, start: int) -> dict[str, np.ndarray]:
    """Return inputs by name; binary ones follow each other from `start` on."""
    tensors = {}
    for entry in inputs:
        name = str(entry["name"])
        shape = entry["shape"]
        kind = _TYPES.get(entry["datatype"])
        if kind is None:
            raise _bad(f"input {name!r}: {entry['datatype']!r} is not one of {', '.join(_TYPES)}")
        if not 1 <= len(shape) <= _MAX_AXES or not all(
            type(size) is int and size > 0 for size in shape
        ):
            raise _bad(f"input {name!r} does not have a shape of positive numbers")
        count = math.prod(shape)
        size = (entry.get("parameters") or {}).get("binary_data_size")
        if size is None:
            # Nested lists are accepted like flat ones.
            values = np.asarray(entry["data"], kind).ravel()
        else:
            if size != count * kind.itemsize or start + size > len(body):
                raise _bad(f"input {name!r} of shape {shape} has {size} bytes")
            values = np.frombuffer(body, kind, count, start)
            start += size
        if len(values) != count:
            raise _bad(f"input {name!r} of shape {shape} has {len(values)} values")
        tensors[name] = values.reshape(shape)
    if start != len(body):
        raise _bad(f"{len(body) - start} bytes of it belong to no input")
    return tensors


def write_answer(
    request: Request, model: str, outputs: Mapping[str, np.ndarray]
) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the number of its bytes that are JSON; None: all.

    Args:
        outputs: Arrays by name, of float32, or of objects that are texts.

    Raises:
        Refusal: 400, an unknown output is requested.
    """
    wanted = request.outputs
    if wanted is None:
        wanted = dict.fromkeys(outputs, request.are_binary)
    entries = []
    parts: list[bytes] = []
    for name, is_binary in wanted.items():
        if name not in outputs:
            raise _bad(f"there is no output {name!r}: there are {', '.join(outputs)}")
        values = outputs[name]
        datatype = BYTES if values.dtype.kind == "O" else "FP32"
        entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(values.shape)}
        if is_binary:
            part = _as_bytes(values)
            parts.append(part)
            entry["parameters"] = {"binary_data_size": len(part)}
        else:
            entry["data"] = values.ravel().tolist()
        entries.append(entry)
    document: dict[str, Any] = {"model_name": model, "model_version": "1", "outputs": entries}
    if request.identity is not None:
        document["id"] = request.identity
    header = json.dumps(document, allow_nan=False).encode()
    return b"".join([header, *parts]), len(header) if parts else None


def _as_bytes(values: np.ndarray) -> bytes:
    if values.dtype.kind != "O":
        return values.astype("<f4").tobytes()
    parts = []
    for text in values.ravel():
        content = text.encode()
        parts += [len(content).to_bytes(4, "little"), content]
    return b"".join(parts)


def _bad(reason: str) -> Refusal:
    return Refusal(400, f"the request does not follow the open inference protocol (v2): {reason}.")
