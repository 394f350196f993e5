"""Sizes, fonts and colours of all figures; the colours differ also with colour blindness."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import matplotlib as mpl

from anabranch.errors import InputError, not_written
from anabranch.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

_MARGIN = 0.1  # inches, sum of the margins at both sides of a legend
_LEGEND_HEIGHT = 0.9  # inches of a legend that figures have room for
_LABEL_GAP = 3.0  # pixels between two labels of an axis
_DPI = 200  # of bitmaps
_MAX_FOLDS = 4  # rounds of folding titles and turning labels, which change each other's room

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINE_STYLES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.2)), (0, (4, 1.5, 1, 1.5)))
GREYS = ("#000000", "#7A7A7A", "#B4B4B4", "#4A4A4A")
"""Colours of figures in grey; series that share one differ in marker, dash or hatch."""
HATCHES = ("", "////", "....", "xxxx")
COLUMN_WIDTH = 3.5  # inches: one column of a two-column page of IEEE or ACM
REFERENCE_STYLES = ((0, (5, 3)), (0, (1, 2)), (0, (5, 2, 1, 2)))

Style = dict[str, Any]
"""Keyword arguments of a function of matplotlib; the function determines their types."""

SETTINGS: Style = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "figure.dpi": 100,
    # Titles, labels and values are text: "$" is a dollar.
    "text.parse_math": False,
    "svg.hashsalt": "anabranch",
    # Keep texts as text, which can be searched, copied and edited.
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


def look(index: int, *, grey: bool = False) -> tuple[str, str]:
    """Colour and marker of the n-th line; the first 64 combinations differ, in grey the first 8."""
    if grey:
        return GREYS[index % len(GREYS)], MARKERS[index % len(MARKERS)]
    return COLOURS[index % len(COLOURS)], MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]


LegendPlace = Literal["below", "right", "none"]
"""Places of a legend."""
FORMATS = ("png", "svg", "pdf")


def save_as(figure: Figure, file: Path) -> None:
    """Write a figure in the format of the file's ending; equal figures give equal bytes.

    Raises:
        InputError: If the ending is not .png, .svg or .pdf, or the file cannot be written.
        RunFailed: If the disk is full.

    """
    kind = format_of_suffix(file)
    metadata: Style = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
    try:
        with mpl.rc_context(cast("Any", SETTINGS)):
            figure.savefig(file, format=kind, dpi=_DPI, metadata=metadata)
    except OSError as error:
        raise not_written(f"cannot be written: {error.strerror or error}", error, str(file)) from None


def format_of_suffix(file: Path) -> str:
    """The format of a file by its ending.

    Raises:
        InputError: If the ending is not .png, .svg or .pdf.

    """
    kind = file.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError("the name of a figure must end in .png, .svg or .pdf", str(file))
    return kind


def check_figure(file: str | Path) -> None:
    """Check, before the work for it, that a figure could be written.

    Raises:
        InputError: If the ending is not .png, .svg or .pdf, or the folder does not exist.

    """
    format_of_suffix(Path(file))
    check_folder(Path(file))


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG, SVG and PDF and return the files; equal figures give equal bytes.

    All formats have the layout of the bitmap. Its calculation takes longer than the drawing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{kind}" for kind in FORMATS]
    _lay_out(figure)
    for file in files:
        save_as(figure, file)
    return files


def _lay_out(figure: Figure) -> None:
    """Calculate the layout of a figure for bitmaps; no later drawing changes it."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    dpi = figure.dpi
    with mpl.rc_context(cast("Any", SETTINGS)):
        figure.set_dpi(_DPI)
        engine.execute(figure)
        figure.set_dpi(dpi)
        figure.set_layout_engine(None)


def settle(figure: Figure) -> None:
    """Wrap titles that are too wide, and rotate the labels of horizontal axes that would overlap.

    Call it last: it calculates the layout of the figure to find the positions of texts.
    """
    for _ in range(_MAX_FOLDS):
        engine = figure.get_layout_engine()
        if engine is None:
            figure.draw_without_rendering()
        else:
            engine.execute(figure)
        if not _fold_titles(figure) | _turn_labels(figure):
            return


def _fold_titles(figure: Figure) -> bool:
    """Fold titles of the figure and its panels to their widths; returns whether a title was folded."""
    titles = [(text, figure.bbox.width - _MARGIN * figure.dpi) for text in figure.texts if not text.get_rotation()]
    titles += [(axes.title, 1.06 * axes.bbox.width) for axes in figure.axes]
    too_wide = [(text, room) for text, room in titles if text.get_text() and text.get_window_extent().width > room]
    for text, room in too_wide:
        characters = len(text.get_text().replace("\n", " ")) / max(1, text.get_text().count("\n") + 1)
        share = room / text.get_window_extent().width
        text.set_text(textwrap.fill(text.get_text().replace("\n", " "), max(6, int(0.95 * share * characters))))
    return bool(too_wide)


def _turn_labels(figure: Figure) -> bool:
    """Turn the labels of horizontal axes by 90° if neighbours touch; returns whether labels were turned."""
    crowded = [axes for axes in figure.axes if _touch(axes)]
    if crowded:
        # Turn the labels of all axes: axes that share a scale must look alike.
        for axes in figure.axes:
            axes.tick_params(axis="x", labelrotation=90)
    return bool(crowded)


def _touch(axes: Axes) -> bool:
    low, high = sorted(axes.get_xlim())
    shown = [t.label1 for t in axes.xaxis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_visible()]
    boxes = [label.get_window_extent() for label in shown if label.get_text()]
    boxes.sort(key=lambda box: box.x0)
    return any(left.x1 + _LABEL_GAP > right.x0 for left, right in itertools.pairwise(boxes))


def place_legend(figure: Figure, handles: Sequence[Artist], most: int, place: str, **options: Any) -> None:
    """Put a legend below a figure, at its right, or nowhere (`place` is one of `LegendPlace`)."""
    if place == "below":
        legend(figure, handles, most, **options)
    elif place == "right":
        _legend_at_right(figure, handles, **options)


def _legend_at_right(figure: Figure, handles: Sequence[Artist], **options: Any) -> None:
    """Put a legend of one column at the right; the figure becomes wider and, for a long one, higher."""
    placed = figure.legend(handles=handles, loc="outside right center", ncols=1, **{"title_fontsize": 8.5, **options})
    size = placed.get_window_extent()
    room = _MARGIN * figure.dpi
    figure.set_figwidth((figure.bbox.width + size.width + room) / figure.dpi)
    figure.set_figheight(max(figure.bbox.height, size.height + 2.0 * room) / figure.dpi)


def legend(figure: Figure, handles: Sequence[Artist], most: int, **options: Any) -> Legend:
    """Put a legend below a figure, in as many columns as fit its width, but at most `most`.

    If one column does not fit, the figure becomes wider.
    """
    columns = max(1, min(len(handles), most))
    while True:
        placed = figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, **{"title_fontsize": 8.5, **options}
        )
        room = _MARGIN * figure.dpi
        # The layout engine places the legend during drawing; its size is known before.
        needed = placed.get_window_extent().width + room
        if needed <= figure.bbox.width or columns == 1:
            figure.set_figwidth(max(needed, figure.bbox.width) / figure.dpi)
            # A long legend adds to the height, so that the panels keep theirs.
            excess = placed.get_window_extent().height / figure.dpi - _LEGEND_HEIGHT
            figure.set_figheight(figure.get_figheight() + max(0.0, excess))
            return placed
        placed.remove()
        columns -= 1
