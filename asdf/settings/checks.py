"""Whether a value fits its setting.

Invariant: everything that is held against a single value is written in `sections.py`, as its type or its metadata;
what relates two settings is in `relations.py`. A value comes back in the one form that the code below relies on:
a tuple for a list, a float for an int where the setting is a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from asdf.settings.catalogue import Known
from asdf.settings.kinds import describe
from asdf.settings.mistakes import Complaint, closest, shortened


def check_value(known: Known, value: Any) -> Any:
    """`value` in the form of its setting.

    Raises:
        Complaint: the value is of another type, out of its range, or fails what `each` asks.
    """
    fitted = _fit(known.annotation, value)
    for number in _numbers(fitted):
        _check_range(known, number)
    check = _EACH.get(known.metadata["check"])
    if check is not None and fitted is not None:
        check(fitted)
    return fitted


def _fit(annotation: Any, value: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _fit_union(annotation, value)
    if origin is tuple:
        return _fit_tuple(annotation, value)
    if origin is Literal:
        # 1 == True: the type has to be the same as well.
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        near = (
            closest(value, [choice for choice in arguments if isinstance(choice, str)])
            if _is(value, str)
            else ""
        )
        raise Complaint(
            f"expected {describe(annotation)}" + (f"; the nearest is '{near}'" if near else "")
        )
    if annotation is float and _is(value, int):
        return _fit_float(value)
    if not _is(value, annotation):
        raise Complaint(
            f"expected {describe(annotation)}, not {_kind(value)}{_hint(annotation, value)}"
        )
    if annotation is float and not math.isfinite(value):
        raise Complaint("expected a finite number")
    return value


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _fits(annotation: Any, value: Any) -> bool:
    try:
        _fit(annotation, value)
    except Complaint:
        return False
    return True


def _fit_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Complaint("the number is out of range") from None


def _fit_union(annotation: Any, value: Any) -> Any:
    members = get_args(annotation)
    for member in members:
        try:
            return _fit(member, value)
        except Complaint:
            continue
    others = [member for member in members if member is not type(None)]
    if len(others) == 1 and (
        get_origin(others[0]) is tuple or (isinstance(others[0], type) and _is(value, others[0]))
    ):
        _fit(others[0], value)
    hints = [hint for member in others if (hint := _hint(member, value))]
    advice = hints[0] if hints else ""
    raise Complaint(f"expected {describe(annotation)}, not {_kind(value)}{advice}")


def _fit_tuple(annotation: Any, value: Any) -> tuple[Any, ...]:
    arguments = get_args(annotation)
    if not isinstance(value, tuple | list):
        problem = f"expected {describe(annotation)}, not {_kind(value)}"
        if arguments[-1] is Ellipsis and _fits(arguments[0], value):
            # (0) is a number in brackets: a trap that everyone falls into once.
            problem += f"; a tuple of one value is written ({shortened(repr(value))},)"
        raise Complaint(problem)
    if arguments[-1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise Complaint(f"expected {describe(annotation)}, not {len(value)}")
    fitted = []
    for position, (argument, element) in enumerate(zip(arguments, value, strict=True), start=1):
        try:
            fitted.append(_fit(argument, element))
        except Complaint as complaint:
            raise Complaint(
                f"value {position} ({shortened(repr(element))}): {complaint.text}"
            ) from None
    return tuple(fitted)


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__}"
    return {int: "a whole number", float: "a float", str: "a string"}.get(
        type(value), f"a {type(value).__name__}"
    )


def _hint(annotation: Any, value: Any) -> str:
    if annotation is bool and _is(value, int) and value in (0, 1):
        return f"; write {bool(value)}"
    if annotation is int and _is(value, float) and math.isfinite(value) and value == int(value):
        return f"; write {int(value)}"
    if annotation is str and _is(value, int):
        return f"; write '{shortened(str(value))}'"
    return ""


def _numbers(value: Any) -> list[int | float]:
    values = value if isinstance(value, tuple) else (value,)
    return [number for number in values if _is(number, int | float)]


def _check_range(known: Known, number: int | float) -> None:
    bounds = known.metadata
    unit = f" {bounds['unit']}" if bounds["unit"] else ""
    if bounds["at_least"] is not None and number < bounds["at_least"]:
        raise Complaint(f"must be at least {bounds['at_least']:,}{unit}")
    if bounds["above"] is not None and number <= bounds["above"]:
        raise Complaint(f"must be above {bounds['above']:,}{unit}")
    if bounds["at_most"] is not None and number > bounds["at_most"]:
        raise Complaint(f"must be at most {bounds['at_most']:,}{unit}")


def _check_class_path(value: Any) -> None:
    for path in value if isinstance(value, tuple) else (value,):
        parts = path.split(".")
        if len(parts) < 2 or not all(part.isidentifier() for part in parts):
            raise Complaint(
                f"'{shortened(path)}' is no class path; it is written 'package.module.Class'"
            )


def _check_unique(value: Any) -> None:
    seen = set()
    for element in value:
        if element in seen:
            raise Complaint(f"{shortened(repr(element))} is in it twice")
        seen.add(element)


def _check_not_empty(value: Any) -> None:
    if not value:
        raise Complaint("must not be empty")


def _check_path(value: str | tuple[str, ...]) -> None:
    for path in value if isinstance(value, tuple) else (value,):
        if not path.strip():
            raise Complaint("the path is empty; the current folder is written '.'")
        if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
            raise Complaint("the path holds a character that no file name can have")


_EACH: dict[str, Callable[[Any], None]] = {
    "class_path": _check_class_path,
    "unique": _check_unique,
    "not_empty": _check_not_empty,
    "path": _check_path,
}
