"""Tables at a terminal and in pipes that show every number whole.

In a file or a pipe a table has its full width, and no line ends in blanks. On a terminal that is too narrow, texts are
folded between words first. Then the least important columns are omitted, and a line below the table names them. Finally
words are cut onto several lines. The terminal wraps a table that still does not fit. A number is never cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from anabranch.html import cells, grid
from anabranch.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    _Row = tuple[Sequence[str | Text], str]
    """Cells and style."""

_MIN_FOLDED_CHARS = 14  # width in characters to which columns of words are folded


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str
    words: bool = False
    """Whether the column contains words, which are set to the left and folded where space is short."""
    spare: int = 0
    """0 for a column that is always shown; of the others the one with the largest number is omitted first."""

    @property
    def name(self) -> str:
        """The heading on one line."""
        return self.heading.replace("-\n", "").replace("\n", " ")


class Sheet:
    """A table without vertical rules, so that many columns fit."""

    def __init__(self, columns: Sequence[Column], title: str = "") -> None:
        self.columns = [replace(column, heading=printable(column.heading, "\n")) for column in columns]
        self._title = printable(title)
        self._rows: list[_Row] = []

    def add(self, *cells: str | Text, style: str = "") -> None:
        """Add a row with a cell for each column."""
        self._rows.append(([cell if isinstance(cell, Text) else printable(cell, "\n") for cell in cells], style))

    def html(self) -> str:
        """The table with all columns as HTML; numbers are set to the right."""
        numbers = [not column.words for column in self.columns]
        rows = (f"<tr>{cells([str(cell) for cell in row], numbers)}</tr>" for row, _ in self._rows)
        return grid([column.name for column in self.columns], rows, numbers, self._title)

    def print(self, console: Console) -> None:
        """Print the table, and below it the names of the columns that a narrow terminal has no room for."""
        natural = [self._width(i) for i in range(len(self.columns))]
        room = console.width if console.is_terminal else max(console.width, _total(natural))
        least = [self._least(i) for i in range(len(self.columns))]
        widths = _fold(natural, least, room)
        shown = list(range(len(self.columns)))
        while _total([widths[i] for i in shown]) > room:
            spare = max(shown, key=lambda i: self.columns[i].spare)
            if not self.columns[spare].spare:
                break
            shown.remove(spare)
        # Without the omitted columns there may be room for wider ones.
        kept = _fold([natural[i] for i in shown], [least[i] for i in shown], room)
        if _total(kept) > room:
            folded = [
                min(width, _MIN_FOLDED_CHARS) if self.columns[i].words else width
                for i, width in zip(shown, kept, strict=True)
            ]
            kept = _fold(kept, folded, room)
        self._write(console, shown, kept)
        dropped = [c.name for i, c in enumerate(self.columns) if i not in shown]
        if dropped:
            console.print(f"No room here for: {', '.join(dropped)}.", style="dim", highlight=False)

    def _width(self, index: int) -> int:
        """Characters that a column takes if nothing is folded."""
        cells = [self.columns[index].heading, *(cells[index] for cells, _ in self._rows)]
        return max(cell_len(line) for cell in cells for line in str(cell).split("\n"))

    def _least(self, index: int) -> int:
        """Characters to which a column may be folded without cutting words."""
        if not self.columns[index].words:
            return self._width(index)
        cells = [self.columns[index].heading, *(cells[index] for cells, _ in self._rows)]
        # Blanks at the beginning of a line set it in.
        words = (word for cell in cells for line in str(cell).split("\n") for word in line.strip().split(" "))
        indents = (cell_len(line) - cell_len(line.lstrip()) for cell in cells for line in str(cell).split("\n"))
        return min(self._width(index), max(_MIN_FOLDED_CHARS, max(map(cell_len, words)) + max(indents)))

    def _write(self, console: Console, shown: Sequence[int], widths: Sequence[int]) -> None:
        """Print a table; in a file or a pipe without the blanks that fill its lines."""
        before = console.width
        console.width = max(before, _total(widths))
        if console.is_terminal:
            console.print(self._table(shown, widths, self._rows))
        else:
            with console.capture() as capture:
                console.print(self._table(shown, widths, []))
            lines = [line.rstrip() for line in capture.get().split("\n")]
            # The end of a table is an empty line. Rich would take most of the time of a report for the rows.
            console.file.write("\n".join([*lines[:-2], *self._lines(shown, widths), *lines[-2:]]))
        console.width = before

    def _lines(self, shown: Sequence[int], widths: Sequence[int]) -> Iterator[str]:
        """The rows in a file or a pipe, where every column is as wide as its widest cell."""
        aligned = [(i, width, self.columns[i].words) for i, width in zip(shown, widths, strict=True)]
        for row, _ in self._rows:
            cells = [[_padded(line, width, words) for line in str(row[i]).split("\n")] for i, width, words in aligned]
            for number in range(max(map(len, cells))):
                parts = (
                    cell[number] if number < len(cell) else " " * width
                    for cell, width in zip(cells, widths, strict=True)
                )
                yield f" {' '.join(parts)}".rstrip()

    def _table(self, shown: Sequence[int], widths: Sequence[int], rows: Sequence[_Row]) -> Table:
        table = Table(
            title=Text(self._title) if self._title else None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=0,
        )
        for i, width in zip(shown, widths, strict=True):
            column = self.columns[i]
            justify = "left" if column.words else "right"
            table.add_column(Text(column.heading), justify=justify, width=width, overflow="fold")  # type: ignore[arg-type]
        for row, style in rows:
            table.add_row(*(_text(row[i]) for i in shown), style=style)
        return table


def _text(cell: str | Text) -> Text:
    """The text of a cell; square brackets in it are no markup."""
    return cell if isinstance(cell, Text) else Text(cell)


def _padded(line: str, width: int, words: bool) -> str:
    """A line of a cell with blanks on the right of words and on the left of numbers."""
    text = line if words else line.rstrip()
    blanks = " " * (width - cell_len(text))
    return text + blanks if words else blanks + text


def _fold(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit the room: the widest column that is above its minimum is narrowed first."""
    widths = list(natural)
    while _total(widths) > room:
        wide = [i for i, width in enumerate(widths) if width > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    """Number of characters of a line: the columns, a space between each two, and one at each end."""
    return sum(widths) + len(widths) + 1
