"""Drawn figures: their contents are complete, legends fit and name everything, and text stays text."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

import fake_simulator
import small_study
from anabranch.errors import InputError
from anabranch.plot import marks, panels, ranges, style, windows
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.store import read
from anabranch.traces import Traces
from command import anabranch

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure as Canvas

    from anabranch._core.document import Document
    from anabranch._core.simulator import Request
    from anabranch.study.figures import Figure

KINDS = """
[[figure]]
name = "other"
kind = "{kind}"
metric = "goodput"
columns = "congestion"
{more}
"""


def analysed(folder: Path, more: str) -> Analysis:
    study = load(small_study.write(folder / "study", study=small_study.STUDY + more))
    small_study.execute_quietly(study, folder / "results", fake_simulator.simulate)
    with read(folder / "results") as store:
        return Analysis(study, study.full, store.records)


def figure(analysis: Analysis, name: str) -> Figure:
    return next(f for f in analysis.study.figures if f.name == name)


def drawn(analysis: Analysis, name: str = "other") -> Canvas:
    chosen = figure(analysis, name)
    canvas = chosen.kind.draw(chosen, analysis, None)
    assert canvas is not None
    return canvas


@pytest.mark.parametrize("most", [30.0, 3_000.0, 3_000_000.0])
def test_logarithmic_axis_has_plain_separate_numbers(tmp_path: Path, most: float) -> None:
    canvas = drawn(analysed(tmp_path, KINDS.format(kind="lines", more='x = "capacity"\nlog_x = true')))
    for line in canvas.axes[0].lines:
        line.set_xdata(np.geomspace(3.0, most, len(np.atleast_1d(line.get_xdata()))))
    canvas.axes[0].relim()
    canvas.axes[0].autoscale(axis="x")
    ranges.make_logarithmic(canvas.axes[0], "x")
    canvas.draw_without_rendering()
    low, high = canvas.axes[0].get_xlim()
    labels = [t for t in canvas.axes[0].get_xticklabels() if t.get_text() and low <= t.get_position()[0] <= high]
    assert len(labels) > 1
    assert [float(t.get_text()) for t in labels] == pytest.approx([t.get_position()[0] for t in labels])
    assert not any(t.get_text() for t in canvas.axes[0].get_xticklabels(minor=True))
    boxes = [t.get_window_extent() for t in labels]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_bars_are_as_high_as_the_centres(tmp_path: Path) -> None:
    found = analysed(tmp_path, KINDS.format(kind="bar", more='x = "capacity"'))
    canvas = drawn(found)
    for axes, control in zip(canvas.axes, ("reno", "cubic"), strict=True):
        points = [p for p in found.points() if p.values["congestion"] == control]
        wanted = [found.centre(p, "goodput", flow) for flow in ("F0", "F1") for p in points]
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(wanted)  # type: ignore[attr-defined]
        lefts = [bar.get_x() for bar in axes.patches]  # type: ignore[attr-defined]
        assert len(set(lefts)) == 4
        assert [t.get_text() for t in axes.get_xticklabels()] == ["10", "20"]


def test_box_shows_single_runs(tmp_path: Path) -> None:
    found = analysed(tmp_path, KINDS.format(kind="box", more='x = "capacity"\nsubjects = ["F0"]'))
    axes = drawn(found).axes[0]
    point = found.points()[0]
    samples = found.samples(point, "goodput")["F0"]
    box = np.asarray(axes.patches[0].get_path().vertices)
    assert (box[:, 1].min(), box[:, 1].max()) == pytest.approx(np.quantile(samples, [0.25, 0.75]))


def test_distribution_rises_to_one(tmp_path: Path) -> None:
    found = analysed(tmp_path, KINDS.format(kind="cdf", more='where = { capacity = 10 }\nsubjects = ["F0"]'))
    axes = drawn(found).axes[0]
    (line,) = axes.lines
    xs, ys = line.get_data()
    samples = sorted(found.samples(found.points()[0], "goodput")["F0"])
    assert list(np.asarray(xs)[1:]) == pytest.approx(samples)
    assert list(np.asarray(ys)[1:]) == pytest.approx([1 / 3, 2 / 3, 1.0])


@pytest.mark.parametrize("kind", ["lines", "bar", "box", "cdf"])
def test_figure_fits_one_column_of_a_page(tmp_path: Path, kind: str) -> None:
    x = "" if kind == "cdf" else 'x = "capacity"'
    found = analysed(tmp_path, KINDS.format(kind=kind, more=f'{x}\nwidth = "column"'))
    canvas = drawn(found)
    assert canvas.get_figwidth() == 3.5
    assert_legend_fits(canvas)


def test_figures_contain_their_texts(tmp_path: Path) -> None:
    found = analysed(tmp_path, "")
    files = style.save(drawn(found, "goodput"), tmp_path, "goodput")
    assert [f.suffix for f in files] == [".png", ".svg", ".pdf"]
    texts = {node.text for node in ET.parse(files[1]).iter("{http://www.w3.org/2000/svg}text")}
    assert {"Goodput of two flows", "Capacity [Mbit/s]", "published: Author 2000"} <= texts
    assert files[2].read_bytes().startswith(b"%PDF-")


def test_formats_of_a_figure_share_one_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = analysed(tmp_path, "")
    style.save_as(drawn(found, "goodput"), tmp_path / "alone.png")
    canvas = drawn(found, "goodput")
    engine = canvas.get_layout_engine()
    assert engine is not None
    layouts, execute = list[float](), engine.execute

    def counted(figure: Canvas) -> None:
        layouts.append(figure.dpi)
        execute(figure)

    monkeypatch.setattr(engine, "execute", counted)
    png, svg, _ = style.save(canvas, tmp_path, "goodput")
    assert layouts == [200]
    assert png.read_bytes() == (tmp_path / "alone.png").read_bytes()
    (panel,) = [part for part in ET.parse(svg).iter() if part.get("id") == "patch_2"]
    corners = [float(number) for number in panel[0].attrib["d"].split() if number not in "MLz"]
    box = canvas.axes[0].get_position()
    assert corners[0] == pytest.approx(72.0 * canvas.get_figwidth() * box.x0, abs=0.01)
    assert corners[1] == pytest.approx(72.0 * canvas.get_figheight() * (1.0 - box.y0), abs=0.01)


def same(request: Request) -> Document:
    """The double of the simulator, with equal rates of both flows."""
    document = fake_simulator.simulate(request)
    return {**document, "flows": [{**document["flows"][0], "name": name} for name in ("F0", "F1")]}


def at_once(request: Request) -> Document:
    """The double with a first flow that recovers in 0 s, and a second one in 1 s."""
    document = fake_simulator.simulate(request)
    return {**document, "flows": [{**f, "recovery_s": float(i)} for i, f in enumerate(document["flows"])]}


@pytest.mark.parametrize("kind", ["lines", "bar", "box"])
def test_marker_of_zero_is_not_clipped(tmp_path: Path, kind: str) -> None:
    text = small_study.STUDY + KINDS.format(kind=kind, more='x = "capacity"').replace('"goodput"', '"recovery-time"')
    study = load(small_study.write(tmp_path / "study", study=text))
    small_study.execute_quietly(study, tmp_path / "results", at_once)
    with read(tmp_path / "results") as store:
        canvas = drawn(Analysis(study, study.full, store.records))
    for axes in canvas.axes:
        marks_at_zero = [line for line in axes.lines if not line.get_clip_on()]
        assert [list(np.asarray(line.get_ydata())) for line in marks_at_zero] == [[0.0, 0.0]]
        assert marks_at_zero[0].get_marker() == style.MARKERS[0]


def test_equal_lines_do_not_hide_each_other(tmp_path: Path) -> None:
    study = load(small_study.write(tmp_path / "study"))
    small_study.execute_quietly(study, tmp_path / "results", same)
    with read(tmp_path / "results") as store:
        canvas = drawn(Analysis(study, study.full, store.records), "goodput")
    lines = [line for line in canvas.axes[0].lines if line.get_marker() in style.MARKERS[:2]]
    first, second = [line for line in lines if line.get_linestyle() != "None"]
    assert first.get_linestyle() == "-"
    assert second.get_linestyle() == "--"
    assert second.get_markersize() < first.get_markersize()


def test_world_without_buffers_has_no_row_for_them(tmp_path: Path) -> None:
    rows = ["0.0,F0,a>b,1000,,40,500", "1.0,F0,a>b,2000,1500,40,900"]
    head = "time_s,flow,path,cwnd_bytes,ssthresh_bytes,srtt_us,outstanding_bytes"
    (tmp_path / "paths.csv").write_text("\n".join([head, *rows]))
    curves = windows.Curves.of(Traces(tmp_path), [], (0.0, 0.0))
    canvas = windows.draw(LAYOUT, [("one", curves)])
    assert [axes.get_ylabel() for axes in canvas.axes] == ["Congestion\nwindow [kB]", "In flight [kB]"]
    assert not any("buffer" in text.get_text() for legend in canvas.legends for text in legend.get_texts())


def traces(paths: dict[tuple[str, str], float]) -> windows.Curves:
    """Traces in which each path has a constant amount of data in flight."""
    times = [i / 10 for i in range(100)]
    rows = [
        {"time_s": t, "flow": flow, "path": path, "cwnd_bytes": 20000.0, "ssthresh_bytes": 10000.0,
         "outstanding_bytes": flight}
        for t in times for (flow, path), flight in paths.items()
    ]  # fmt: skip
    names = ("send_buffer_bytes", "receive_buffer_bytes", "reordering_buffer_bytes")
    flows = dict.fromkeys(flow for flow, _ in paths)
    buffers = [{"time_s": t, "flow": flow, **dict.fromkeys(names, 5000.0)} for t in times for flow in flows]
    return windows.Curves(pl.DataFrame(rows), pl.DataFrame(buffers))


PATHS = {("F0", "left>bottleneck"): 1500.0, ("F0", "dead"): 0.0, ("F1", "B"): 1500.0, ("F0", "right>bottleneck"): 1.5e3}


LAYOUT = windows.Layout("Windows over time", {}, "page", (2.0, 12.0))


@pytest.mark.parametrize("points", [1, 2])
def test_legends_of_windows_fit_and_name_every_colour(points: int) -> None:
    canvas = windows.draw(LAYOUT, [(str(i), traces(PATHS)) for i in range(points)])
    assert_legend_fits(canvas)
    (legend,) = canvas.legends
    named = {to_hex(h.get_color()) for h in legend.legend_handles if isinstance(h, Line2D)}
    curves = {to_hex(line.get_color()) for axes in canvas.axes for line in axes.lines}
    assert curves <= named
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:3] == ["F0, path left>bottleneck", "F0, path right>bottleneck", "F1, path B"]


def test_dead_subflow_takes_no_colour() -> None:
    canvas = windows.draw(LAYOUT, [("one", traces(PATHS))])
    flights = canvas.axes[1].lines
    assert [line.get_color() for line in flights] == list(style.COLOURS[:3])


def test_equal_windows_have_distinct_markers() -> None:
    canvas = windows.draw(LAYOUT, [("one", traces(PATHS))])
    flights = canvas.axes[1].lines
    assert len({str(line.get_marker()) for line in flights}) == 3
    assert len({str(line.get_markevery()) for line in flights}) == 3


def assert_legend_fits(canvas: Canvas) -> None:
    canvas.draw_without_rendering()
    (legend,) = canvas.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0.0
    assert box.x1 <= canvas.bbox.width
    assert box.y0 >= 0.0


def test_ranges_and_vertical_lines_are_drawn(tmp_path: Path) -> None:
    more = 'x = "capacity"\nx_range = [5, 25.5]\ny_range = [1, 40]\nmarks = [10, 12.5]'
    for axes in drawn(analysed(tmp_path, KINDS.format(kind="lines", more=more))).axes:
        assert (axes.get_xlim(), axes.get_ylim()) == ((5.0, 25.5), (1.0, 40.0))
        lines = [line for line in axes.lines if line.get_color() == "#888888"]
        assert [float(np.asarray(line.get_xdata())[0]) for line in lines] == [10.0, 12.5]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("x_range = [3, 3]", '"x_range" has to be [from, to]'),
        ("y_range = [5]", '"y_range" has to be [from, to]'),
        ('y_range = ["a", 5, 6]', '"y_range" has to be [from, to]'),
        ('marks = ["reno"]', '"marks" has to be a list of positions'),
    ],
)
def test_wrong_range_is_refused(tmp_path: Path, more: str, message: str) -> None:
    text = small_study.STUDY + KINDS.format(kind="lines", more=f'x = "capacity"\n{more}')
    with pytest.raises(InputError) as caught:
        load(small_study.write(tmp_path / "study", study=text))
    assert message in str(caught.value)
    assert "study.toml:" in str(caught.value)


FAIR = """
[[figure]]
name = "fair"
x = "capacity"
columns = "congestion"
metric = "{metric}"

[[figure.reference]]
label = "Fair"
allocation = "max-min"
of = "F0"
factor = 0.9
"""


def test_fair_rate_is_a_reference_line(tmp_path: Path) -> None:
    canvas = drawn(analysed(tmp_path, FAIR.format(metric="goodput")), "fair")
    for axes in canvas.axes:
        heights = [list(np.asarray(line.get_ydata())) for line in axes.lines]
        assert [pytest.approx(4.5), pytest.approx(9.0)] in heights  # 0.9 of the half of 10 and of 20 Mbit/s


def test_only_rates_have_a_fair_reference_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='in Mbit/s, which "deviation" is not'):
        analysed(tmp_path, FAIR.format(metric="deviation"))


def test_deviations_may_be_negative(tmp_path: Path) -> None:
    found = analysed(tmp_path, KINDS.format(kind="lines", more='x = "capacity"').replace("goodput", "deviation"))
    point = found.points()[0]
    goodputs = {flow: found.estimates(point, "goodput")[flow].centre for flow in ("F0", "F1")}
    expected = (goodputs["F1"] - goodputs["F0"]) / float(point.values["capacity"])
    assert found.centre(point, "deviation", "F0") == pytest.approx(expected)
    assert found.centre(point, "deviation", "F1") == pytest.approx(-expected)
    assert found.centre(point, "fill", "") == pytest.approx(sum(goodputs.values()) / float(point.values["capacity"]))
    assert found.centre(point, "over-alone", "F0") == pytest.approx(goodputs["F0"] / float(point.values["capacity"]))
    assert drawn(found).axes[0].get_ylim()[0] < 0.0


HEAT = """
[[figure]]
name = "heat"
title = "Goodput of two flows"
kind = "heat"
metric = "goodput"
x = "capacity"
y = "congestion"
{more}
"""


def heated(analysis: Analysis) -> Canvas:
    return drawn(analysis, "heat")


def cells(canvas: Canvas) -> list[list[float]]:
    return np.asarray(canvas.axes[0].images[0].get_array()).tolist()  # type: ignore[no-any-return]


def test_heat_map_cell_shows_the_centre(tmp_path: Path) -> None:
    found = analysed(tmp_path, HEAT.format(more='subjects = ["F0"]'))
    canvas = heated(found)
    centres = {(p.values["congestion"], p.values["capacity"]): found.centre(p, "goodput", "F0") for p in found.points()}
    assert cells(canvas) == [[pytest.approx(centres[y, x]) for x in (10, 20)] for y in ("reno", "cubic")]
    axes = canvas.axes[0]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["10", "20"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["reno", "cubic"]
    shown = [float(t.get_text()) for t in axes.texts]
    assert shown == pytest.approx([cell for row in cells(canvas) for cell in row], abs=0.051)


@pytest.mark.parametrize(("together", "fold"), [("smallest", min), ("largest", max), ("mean", np.mean)])
def test_heat_map_merges_subjects(tmp_path: Path, together: str, fold: Any) -> None:
    found = analysed(tmp_path, HEAT.format(more=f'together = "{together}"\nlog_colour = true'))
    expected = [
        [
            fold([found.centre(p, "goodput", s) for s in ("F0", "F1")])
            for p in found.points()
            if p.values["congestion"] == y
        ]
        for y in ("reno", "cubic")
    ]
    canvas = heated(found)
    assert cells(canvas) == [pytest.approx(row) for row in expected]
    meaning = canvas.axes[-1].get_ylabel()
    assert meaning == ("Goodput [Mbit/s]" if together == "mean" else f"Goodput [Mbit/s], {together}")


def test_heat_map_needs_two_axes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='"y"'):
        analysed(tmp_path, HEAT.format(more="").replace('y = "congestion"', ""))


def figure_error(folder: Path, more: str) -> str:
    with pytest.raises(InputError) as caught:
        load(small_study.write(folder / "study", study=small_study.STUDY + more))
    return str(caught.value)


def test_constant_reference_lies_at_its_offset(tmp_path: Path) -> None:
    more = 'x = "capacity"\n[[figure.reference]]\nlabel = "both links"\noffset = 43.7'
    canvas = drawn(analysed(tmp_path, KINDS.format(kind="lines", more=more)))
    (line,) = [line for line in canvas.axes[0].lines if line.get_color() == "#666666"]
    assert set(np.asarray(line.get_ydata())) == {43.7}


def test_constant_reference_without_offset_is_refused(tmp_path: Path) -> None:
    more = 'x = "capacity"\n[[figure.reference]]\nlabel = "both links"\n'
    assert '"offset" is missing' in figure_error(tmp_path, KINDS.format(kind="lines", more=more))
    message = figure_error(tmp_path, KINDS.format(kind="lines", more=more + "factor = 43.7"))
    assert 'give a constant as "offset"' in message


@pytest.mark.parametrize("kind", ["lines", "bar", "box"])
def test_series_with_several_subjects_needs_together(tmp_path: Path, kind: str) -> None:
    more = 'x = "capacity"\nseries = "congestion"'
    text = KINDS.format(kind=kind, more=more).replace('columns = "congestion"\n', "")
    message = figure_error(tmp_path, text)
    assert "has several values at a point, those of F0, F1" in message
    assert "study.toml:" in message
    found = analysed(tmp_path / "mean", text + 'together = "mean"\n')
    view = panels.view_of(figure(found, "other"), found, found.points())
    assert [panels.series_label(view.figure, found, s, found.points()) for s in view.names] == ["reno", "cubic"]
    (first, _) = marks.samples(view, found.points(), view.names[0])
    runs = found.samples(found.points()[0], "goodput")
    assert list(first.values) == pytest.approx([(a + b) / 2 for a, b in zip(runs["F0"], runs["F1"], strict=True)])
    drawn(found)


def test_points_with_equal_axis_values_are_refused(tmp_path: Path) -> None:
    text = KINDS.format(kind="lines", more='x = "capacity"').replace('columns = "congestion"\n', "")
    assert 'shows points that differ in "congestion"' in figure_error(tmp_path, text)
    load(small_study.write(tmp_path / "one", study=small_study.STUDY + text + 'where = { congestion = "reno" }\n'))


def test_only_parameter_left_becomes_the_series(tmp_path: Path) -> None:
    text = KINDS.format(kind="lines", more='x = "capacity"\nsubjects = ["F0"]').replace('columns = "congestion"\n', "")
    found = analysed(tmp_path, text)
    view = panels.view_of(figure(found, "other"), found, found.points())
    assert (view.figure.series, view.figure.is_implied) == ("congestion", True)
    assert [panels.series_label(view.figure, found, s, found.points()) for s in view.names] == ["reno", "cubic"]
    told = anabranch("study", "report", str(tmp_path / "study"), "--results", str(tmp_path / "none")).stderr
    assert told.startswith('anabranch: the figure "other" has a line for each "congestion", which no axis')


def test_series_of_paths_has_a_line_for_each(tmp_path: Path) -> None:
    more = 'x = "capacity"\nseries = "congestion"'
    text = KINDS.format(kind="lines", more=more).replace('columns = "congestion"\n', "")
    found = analysed(tmp_path, text.replace('"goodput"', '"path-goodput"'))
    view = panels.view_of(figure(found, "other"), found, found.points())
    labels = [panels.series_label(view.figure, found, s, found.points()) for s in view.names]
    assert labels == [
        f"{control}, {path}" for control in ("reno", "cubic") for path in ("F0/A", "F0/B", "F1/A", "F1/B")
    ]
    assert all(len(marks.samples(view, found.points(), series)) == 2 for series in view.names)
