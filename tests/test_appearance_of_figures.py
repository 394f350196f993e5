"""Keys of figures for their appearance: two variables of series, axes, legend, greys, published values, statements."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.plot import marks, windows
from anabranch.plot.over_time import points_of, title
from anabranch.plot.panels import unshown
from anabranch.report.terminal import absences
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.store import read
from test_figures import LAYOUT, PATHS, analysed, at_once, drawn, figure, figure_error, traces
from test_figures_over_time import FIGURE as OVER_TIME
from test_figures_over_time import drawn as drawn_over_time

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

FIGURE = """
[[figure]]
name = "other"
kind = "{kind}"
x = "capacity"
{more}
"""
PANELS = 'columns = "congestion"\n'
TWO = 'series = ["congestion", "subject"]\nlabels = { F0 = "first", F1 = "second" }\n'


def lines(axes: Axes) -> list[Line2D]:
    """The lines of series, without error bars and marks."""
    return [line for line in axes.lines if line.get_linestyle() != "None" and len(np.atleast_1d(line.get_xdata())) > 1]


def labels(canvas: Canvas) -> list[str]:
    return [text.get_text() for legend in canvas.legends for text in legend.get_texts()]


def test_first_variable_has_colours_and_second_dashes(tmp_path: Path) -> None:
    found = analysed(tmp_path, FIGURE.format(kind="lines", more=TWO + "published = false"))
    canvas = drawn(found)
    styles = [(line.get_color(), line.get_linestyle()) for line in lines(canvas.axes[0])]
    assert len(set(styles)) == 4
    assert [colour for colour, _ in styles] == ["#0072B2", "#0072B2", "#D55E00", "#D55E00"]
    assert [dash for _, dash in styles] == ["-", "--", "-", "--"]
    assert labels(canvas) == ["reno", "cubic", "first", "second"]
    point = found.points()[0]
    heights = [float(np.asarray(line.get_ydata())[0]) for line in lines(canvas.axes[0])[:2]]
    assert heights == pytest.approx([found.centre(point, "goodput", flow) for flow in ("F0", "F1")])


def test_second_variable_of_two_parameters_has_dashes(tmp_path: Path) -> None:
    more = 'x = "congestion"\nseries = ["capacity", "subject"]'
    text = FIGURE.format(kind="bar", more=more).replace('x = "capacity"\n', "")
    axes = drawn(analysed(tmp_path, text)).axes[0]
    bars = [patch for patch in axes.patches if isinstance(patch, Patch)]
    assert [bar.get_hatch() or "" for bar in bars] == ["", "", "////", "////"] * 2
    assert len({bar.get_facecolor() for bar in bars}) == 2


@pytest.mark.parametrize("kind", ["lines", "bar", "box"])
def test_logarithmic_heights_have_plain_numbers(tmp_path: Path, kind: str) -> None:
    more = PANELS + "log_y = true\ny_range = [1, 100]"
    axes = drawn(analysed(tmp_path, FIGURE.format(kind=kind, more=more))).axes[0]
    assert (axes.get_yscale(), axes.get_ylim()) == ("log", (1.0, 100.0))
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    shown = {t.get_text() for t in axes.get_yticklabels() if 1.0 <= t.get_position()[1] <= 100.0}
    assert {"1", "10", "100"} <= shown


@pytest.mark.parametrize("kind", ["lines", "bar", "box"])
def test_values_of_zero_are_not_on_logarithmic_axes(tmp_path: Path, kind: str) -> None:
    more = PANELS + 'metric = "recovery-time"\nlog_y = true'
    study = load(small_study.write(tmp_path / "study", study=small_study.STUDY + FIGURE.format(kind=kind, more=more)))
    small_study.execute_quietly(study, tmp_path / "results", at_once)
    with read(tmp_path / "results") as store:
        found = Analysis(study, study.full, store.records)
    assert unshown(figure(found, "other"), found) == 4  # of the first flow, at two points in two panels
    assert 'Figure "other" leaves out 4 values not above 0: its axis is logarithmic.' in absences(found)
    for axes in drawn(found).axes:
        assert axes.get_ylim()[0] > 0.0
        heights = [float(y) for line in axes.lines for y in np.atleast_1d(line.get_ydata())]
        assert 0.0 not in heights


def test_ticks_are_those_of_the_figure(tmp_path: Path) -> None:
    more = PANELS + "x_ticks = [10, 12.5, 20]\ny_ticks = [0, 30]\nx_range = [5, 25]\ny_range = [0, 40]"
    for axes in drawn(analysed(tmp_path, FIGURE.format(kind="lines", more=more))).axes:
        assert list(axes.get_xticks()) == [10.0, 12.5, 20.0]
        assert list(axes.get_yticks()) == [0.0, 30.0]
        assert (axes.get_xlim(), axes.get_ylim()) == ((5.0, 25.0), (0.0, 40.0))


@pytest.mark.parametrize("kind", ["lines", "bar", "box", "cdf"])
def test_legend_has_the_position_of_its_key(tmp_path: Path, kind: str) -> None:
    sizes = {}
    for place in ("below", "right", "none"):
        text = FIGURE.format(kind=kind, more=f'{PANELS}legend = "{place}"')
        if kind == "cdf":
            text = text.replace('x = "capacity"\n', "")
        canvas = drawn(analysed(tmp_path / place, text))
        canvas.draw_without_rendering()
        sizes[place] = tuple(canvas.get_size_inches())
        assert len(canvas.legends) == (place != "none")
        if place != "below":
            assert canvas.get_supxlabel() in ("Capacity [Mbit/s]", "Goodput [Mbit/s]")
        if place == "right":
            panels = max(axes.get_window_extent().x1 for axes in canvas.axes)
            assert panels < canvas.legends[0].get_window_extent().x0
    assert sizes["right"][0] > sizes["none"][0]


def is_grey(colour: object) -> bool:
    red, green, blue = to_rgb(colour)  # type: ignore[arg-type]
    return red == green == blue


def drawn_colour(line: Line2D) -> object:
    """The colour of a line, or of its marks if it has only marks."""
    return line.get_markeredgecolor() if line.get_linestyle() == "None" else line.get_color()


@pytest.mark.parametrize("kind", ["lines", "bar", "box", "cdf"])
def test_grey_figure_has_no_colour(tmp_path: Path, kind: str) -> None:
    text = FIGURE.format(kind=kind, more=f"{PANELS}grey = true")
    canvas = drawn(analysed(tmp_path, text.replace('x = "capacity"\n', "") if kind == "cdf" else text))
    for axes in canvas.axes:
        assert all(is_grey(drawn_colour(line)) for line in axes.lines)
        assert all(is_grey(patch.get_facecolor()[:3]) for patch in axes.patches)
        looks = {line.get_linestyle() for line in lines(axes)} | {patch.get_hatch() or "" for patch in axes.patches}
        assert len(looks) > 1
    assert not all(is_grey(line.get_color()) for line in drawn(analysed(tmp_path / "x", ""), "goodput").axes[0].lines)


def test_grey_heat_map_has_no_colour(tmp_path: Path) -> None:
    more = 'y = "congestion"\nsubjects = ["F0"]\ngrey = true'
    image = drawn(analysed(tmp_path, FIGURE.format(kind="heat", more=more))).axes[0].images[0]
    pixels = np.asarray(image.cmap(np.linspace(0.0, 1.0, 9)))
    assert np.allclose(pixels[:, 0], pixels[:, 1])
    assert np.allclose(pixels[:, 0], pixels[:, 2])


@pytest.mark.parametrize("kind", ["time", "queues"])
def test_figure_over_time_is_grey_with_legend_at_right(tmp_path: Path, kind: str) -> None:
    canvas = drawn_over_time(tmp_path, kind, 'grey = true\nlegend = "right"\nx_ticks = [2, 7, 12]')
    assert all(is_grey(line.get_color()) for axes in canvas.axes for line in axes.lines)
    assert list(canvas.axes[0].get_xticks()) == [2.0, 7.0, 12.0]
    canvas.draw_without_rendering()
    assert max(a.get_window_extent().x1 for a in canvas.axes) < canvas.legends[0].get_window_extent().x0


def test_titles_have_the_parameters_that_differ(tmp_path: Path) -> None:
    text = OVER_TIME.format(kind="time", more="").replace('columns = "congestion"\n', "")
    found = analysed(tmp_path, text)
    shown = figure(found, "over-time")
    points = points_of(shown, found)
    assert [title(shown, found, point) for point in points] == ["reno", "cubic"]
    one = dataclasses.replace(shown, where={"capacity": 10, "congestion": "reno"})
    assert [title(one, found, point) for point in points_of(one, found)] == ["10 Mbit/s, reno"]


@pytest.mark.parametrize("kind", ["time", "queues"])
def test_figure_over_time_has_ranges_and_marks(tmp_path: Path, kind: str) -> None:
    canvas = drawn_over_time(tmp_path, kind, "marks = [5]\ny_range = [0, 50]\ny_ticks = [0, 25, 50]")
    for axes in canvas.axes:
        assert axes.get_ylim() == (0.0, 50.0)
        assert list(axes.get_yticks()) == [0.0, 25.0, 50.0]
        assert [5.0, 5.0] in [list(np.atleast_1d(line.get_xdata())) for line in axes.lines]


def test_windows_are_grey_with_a_legend_at_the_right() -> None:
    canvas = windows.draw(dataclasses.replace(LAYOUT, grey=True, legend="right"), [("one", traces(PATHS))])
    assert all(is_grey(line.get_color()) for axes in canvas.axes for line in axes.lines)
    assert len({line.get_marker() for line in canvas.axes[1].lines}) == 3
    canvas.draw_without_rendering()
    assert max(a.get_window_extent().x1 for a in canvas.axes) < canvas.legends[0].get_window_extent().x0


def hollow(canvas: Canvas) -> list[float]:
    """The heights of hollow marks."""
    chosen = [line for axes in canvas.axes for line in axes.lines if line.get_markerfacecolor() == "none"]
    return sorted(float(y) for line in chosen for y in np.atleast_1d(line.get_ydata()))


@pytest.mark.parametrize("kind", ["lines", "bar"])
def test_published_values_are_hollow_marks(tmp_path: Path, kind: str) -> None:
    for key, heights in (("", [4, 5, 8, 11]), ("published = true", [4, 5, 8, 11]), ("published = false", [])):
        canvas = drawn(analysed(tmp_path / (key or "usual"), FIGURE.format(kind=kind, more=PANELS + key)))
        assert hollow(canvas) == heights
        assert ("published: Author 2000" in labels(canvas)) == bool(heights)


@pytest.mark.parametrize("kind", ["lines", "bar", "box"])
def test_statements_are_bars_and_arrows(tmp_path: Path, kind: str) -> None:
    text = small_study.STUDY[: small_study.STUDY.index("[published]")]
    more = FIGURE.format(kind=kind, more=f"{PANELS}claims = true")
    study = load(small_study.write(tmp_path / "study", study=text + more))
    small_study.execute_quietly(study, tmp_path / "results", fake_simulator.simulate)
    with read(tmp_path / "results") as store:
        canvas = drawn(Analysis(study, study.full, store.records))
    width = marks.band_look("black")["linewidth"]
    for axes in canvas.axes:
        bands = [c for c in axes.collections if isinstance(c, LineCollection) and c.get_linewidth()[0] == width]  # type: ignore[index]
        ends = [segment[:, 1].tolist() for band in bands for segment in band.get_segments()]
        assert ends == [pytest.approx([4.7, 5.7])]
        arrows = [line for line in axes.lines if line.get_marker() is marks.ARROWS["at_least"]]
        assert [float(np.atleast_1d(line.get_ydata())[0]) for line in arrows] == [90.0, 90.0]
    assert labels(canvas)[-2:] == ["stated value ± tolerance", "stated least value"]


def test_bars_and_boxes_have_the_same_entries(tmp_path: Path) -> None:
    entries = []
    for kind in ("bar", "box"):
        canvas = drawn(analysed(tmp_path / kind, FIGURE.format(kind=kind, more=PANELS)))
        handles = [h for h in canvas.legends[0].legend_handles if isinstance(h, Patch)]
        entries.append([(h.get_facecolor(), h.get_edgecolor(), h.get_hatch()) for h in handles])
    assert entries[0] == entries[1]
    assert len(entries[0]) == 2


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("lines", 'series = ["congestion", "capacity"]', '"capacity" is on an axis or has panels already'),
        ("lines", 'series = ["congestion", "congestion"]', "one variable, or two different ones"),
        ("lines", "series = []", "the name of one variable, or a list of two different ones, not []"),
        ("lines", 'series = ["congestion", "subjet"]', '"subjet" is no parameter of experiment "pair"'),
        ("lines", TWO + 'together = "mean"', 'name two parameters as "series"'),
        ("lines", PANELS + "log_y = true\ny_range = [0, 5]", '"y_range" has 0, which a logarithmic axis cannot show'),
        ("lines", PANELS + 'metric = "deviation"\nlog_y = true', '"deviation" can be negative'),
        ("lines", PANELS + 'log_y = true\n[[figure.reference]]\nlabel = "none"\noffset = 0', '"none" reaches 0'),
        ("cdf", "log_y = true", '"log_y" belongs to figures of kind lines or bar or box, not "cdf"'),
        ("lines", PANELS + "x_ticks = [10, 10]", '"x_ticks" has to be a list of rising numbers'),
        ("lines", PANELS + "y_ticks = []", '"y_ticks" has to be a list of rising numbers'),
        ("lines", PANELS + "x_ticks = [5, 10]\nx_range = [8, 30]", '"x_ticks" has a position outside "x_range"'),
        ("lines", PANELS + 'legend = "left"', '"legend" cannot be "left"'),
        ("heat", 'y = "congestion"\nlegend = "right"', '"legend" belongs to figures of kind'),
        ("box", PANELS + "published = true", '"published" belongs to figures of kind lines or bar, not "box"'),
        ("lines", PANELS + 'metric = "throughput"\npublished = true', 'are of "goodput", not "throughput"'),
        ("lines", PANELS + 'metric = "throughput"\nclaims = true', 'is about "throughput" at a point of this figure'),
        ("bar", 'series = "congestion"\ntogether = "mean"\nclaims = true', 'remove "together" or "claims"'),
        ("bar", 'series = "congestion"\ntogether = "mean"\npublished = true', 'remove "together" or "published"'),
        ("bar", PANELS + 'subjects = ["F1"]\nclaims = true', "no statement of kind value, at_least or at_most"),
    ],
)
def test_wrong_appearance_is_refused(tmp_path: Path, kind: str, more: str, message: str) -> None:
    text = FIGURE.format(kind=kind, more=more)
    told = figure_error(tmp_path, text.replace('x = "capacity"\n', "") if kind == "cdf" else text)
    assert message in told
    assert "study.toml:" in told


def test_published_zero_is_refused_on_logarithmic_axes(tmp_path: Path) -> None:
    text = small_study.STUDY + FIGURE.format(kind="lines", more=PANELS + "log_y = true")
    values = small_study.PUBLISHED.replace("0,4", "0,0").replace("1,4", "1,0")
    with pytest.raises(InputError, match="a published value is 0, which a logarithmic axis cannot show"):
        load(small_study.write(tmp_path / "study", study=text, published=values))


def test_too_many_dashes_are_refused(tmp_path: Path) -> None:
    text = small_study.STUDY.replace('["reno", "cubic"]', '["reno", "cubic", "lia", "olia", "balia"]')
    more = FIGURE.format(kind="lines", more='series = ["subject", "congestion"]')
    with pytest.raises(InputError, match='"congestion" has 5 values, but there are 4 kinds of dashes'):
        load(small_study.write(tmp_path / "study", study=text + more))


def test_figures_of_windows_refuse_marks(tmp_path: Path) -> None:
    told = figure_error(tmp_path, OVER_TIME.format(kind="windows", more="marks = [3]"))
    assert '"marks" belongs to figures of kind lines or cdf or time or queues, not "windows"' in told
