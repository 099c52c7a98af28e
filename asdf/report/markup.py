"""HTML put together from text: every text is escaped here and nowhere else.

Invariant: `Html` is markup, `str` is text; text becomes markup only through `markup`, so a name such as
`</script><b>` is shown as it is, wherever it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape


class Html(str):
    """Markup, to be written as it is."""


Content = str | int | float | None
"""What an element holds: markup, or text to be escaped; None is nothing."""


def markup(*parts: Content) -> Html:
    """The parts, one after the other, each escaped unless it is markup."""
    return Html(
        "".join(
            part if isinstance(part, Html) else escape(str(part))
            for part in parts
            if part is not None
        )
    )


def tag(name: str, *parts: Content, **attributes: Content) -> Html:
    """An element. `class_` is the attribute class; `_` in the names of others is '-'; '' is an attribute alone."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            key = key.rstrip("_").replace("_", "-")
            words.append(f'{key}="{escape(str(value))}"' if value != "" else key)
    return Html(f"<{' '.join(words)}>{markup(*parts)}</{name}>")


def join(parts: Iterable[Content], between: str = "") -> Html:
    """The parts as one, apart by the text `between`."""
    return Html(escape(between).join(markup(part) for part in parts))


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        content: what it shows.
        value: what it is sorted by and copied as: a number's own digits, a name that is not cut.
        title: what is shown where the pointer rests on it.
    """

    content: Content
    value: Content = None
    class_: str | None = None
    title: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is set as numbers are: to the right."""
        return isinstance(self.content if self.value is None else self.value, int | float)


Row = Sequence[Cell | Content]


def table(
    caption: Content,
    head: Row,
    rows: Sequence[Row],
    *,
    tools: bool = True,
    class_: str | None = None,
) -> Html:
    """A table with a caption, column headers and the first cell of each row as its header.

    `tools` says that it can be sorted and copied; the page's script adds the buttons.
    """
    cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    numbers = {place for row in cells for place, cell in enumerate(row) if cell.is_number}
    names = (
        _head_cell(name if isinstance(name, Cell) else Cell(name), number=i in numbers)
        for i, name in enumerate(head)
    )
    top = tag("thead", tag("tr", *names))
    body = tag("tbody", *(_row(row, numbers) for row in cells))
    inside = tag(
        "table", tag("caption", caption), top, body, class_=class_, data_tools="" if tools else None
    )
    # A focusable region: a wide table can be scrolled with the keyboard too.
    return tag(
        "div", inside, class_="scroll", tabindex="0", role="region", aria_label=_plain(caption)
    )


def _head_cell(cell: Cell, *, number: bool) -> Html:
    class_ = "n" if number else None
    return tag(
        "th", cell.content, scope="col", class_=class_, data_value=cell.value, title=cell.title
    )


def _row(row: Sequence[Cell], numbers: Collection[int]) -> Html:
    return tag(
        "tr",
        *(_cell(cell, first=place == 0, number=place in numbers) for place, cell in enumerate(row)),
    )


def _cell(cell: Cell, *, first: bool, number: bool) -> Html:
    class_ = " ".join(filter(None, [cell.class_, "n" if number else None])) or None
    value = repr(cell.value) if isinstance(cell.value, float) else cell.value
    if first:
        return tag(
            "th", cell.content, scope="row", class_=class_, data_value=value, title=cell.title
        )
    return tag("td", cell.content, class_=class_, data_value=value, title=cell.title)


def name_cell(name: str, label: str) -> Cell:
    """A name by its label, whole for the pointer and for a copy."""
    return Cell(name) if name == label else Cell(label, name, title=name)


def percent(rate: float) -> str:
    """A fraction as '13.75' %."""
    return f"{100 * rate:.2f}"


def _plain(caption: Content) -> str:
    return "table" if isinstance(caption, Html) else str(caption)
