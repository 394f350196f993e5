"""Every figure of every study of the package, from generated values: no text overlaps or leaves the page.

Names, numbers of panels, series and ticks are those of the full form of the study; only the values are generated.

"""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
import pytest
from matplotlib.text import Text

from anabranch._core import simulator
from anabranch.plot.over_time import TracedRun
from anabranch.stats import Estimate
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.library import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure as Canvas

    from anabranch._core.document import Document
    from anabranch.study.figures import Figure, Reference
    from anabranch.study.model import Effort, Study
    from anabranch.sweep import Point

_SLACK = 1.0  # Pixels by which the boxes of two texts may overlap: a box is wider than its visible text.
_MAX_INCHES = 14.0


class MadeUp(Analysis):
    """An analysis whose values are computed from a hash, as if all runs had ended."""

    def __init__(self, study: Study, effort: Effort) -> None:
        super().__init__(study, effort, {})
        self._flows = {
            name: simulator.names(text, str(study.folder / name))[0] for name, text in study.scenarios.items()
        }

    def points(self) -> list[Point]:
        """All points of the form."""
        return list(self.expected())

    def late(self, point: Point) -> int:
        """Zero, as if every machine had kept up with real time."""
        return 0

    def duration_s(self, point: Point) -> float:
        """A duration as long as the generated traces, and longer than each window."""
        del point
        return 500.0

    def height(self, reference: Reference, point: Point) -> float:
        """Fair rates are generated too, because their computation is slow."""
        return 7.5 if reference.allocation else super().height(reference, point)

    def samples(self, point: Point, metric: str) -> dict[str, list[float]]:
        """Three values of each subject that a figure of the study names, or else of each flow."""
        chosen = self.study.metrics[metric]
        level = chosen.level
        named = [s for f in self.study.figures if metric in f.metrics for s in f.subjects]
        flows = self._flows[point.scenario]
        others = {"run": [""], "flow": flows, "link": ["bottleneck/forward"]}
        subjects = named or others.get(level, [f"{flow}/first" for flow in flows])
        draw = random.Random(f"{point.key} {metric}")
        largest = 0.9 if chosen.unit == "" else 95.0
        return {s: [largest * (0.2 + 0.8 * draw.random()) for _ in range(3)] for s in dict.fromkeys(subjects)}

    def estimate(self, samples: Sequence[float]) -> Estimate:
        """The median with the smallest and the largest sample as its interval."""
        low, centre, high = sorted(samples)
        return Estimate(centre, low, high, 3, "t", 0.95, all_equal=False)


def traces(flows: list[str]) -> Any:
    """Traces of two paths for each flow."""
    times = [0.5 * step for step in range(200)]
    paths: dict[str, list[Any]] = {"time_s": [], "flow": [], "path": []}
    for time in times:
        for flow in flows:
            for path in ("first", "second"):
                for column, value in zip(paths.values(), (time, flow, path), strict=True):
                    column.append(value)
    sizes = [20_000.0 + 150 * (index % 400) for index in range(len(paths["time_s"]))]
    columns = ("cwnd_bytes", "ssthresh_bytes", "outstanding_bytes", "srtt_us")
    queues = {"link": "bottleneck", "direction": "forward", "packets": 20}
    reads = {"event": "read", "direction": "forward", "length_bytes": 100_000}
    given = {"reason": "new-data", "path": "first", "length_bytes": 100_000}
    by_flow = {"time_s": [t for t in times for _ in flows], "flow": flows * len(times)}
    buffers = pl.DataFrame(by_flow)
    held = [f"{name}_buffer_bytes" for name in ("send", "receive", "reordering")]
    return SimpleNamespace(
        paths=pl.DataFrame({**paths, **dict.fromkeys(columns, sizes)}),
        buffers=buffers.with_columns(pl.lit(5e5).alias(name) for name in held),
        has_buffers=True,
        has_transfers=True,
        queues=pl.DataFrame({"time_s": times}).with_columns(**{k: pl.lit(v) for k, v in queues.items()}),
        transfers=pl.DataFrame(by_flow).with_columns(**{k: pl.lit(v) for k, v in reads.items()}),
        decisions=pl.DataFrame(by_flow).with_columns(**{k: pl.lit(v) for k, v in given.items()}),
    )


def draw(figure: Figure, analysis: MadeUp) -> Canvas | None:
    return figure.kind.draw(
        figure,
        analysis,
        lambda point, _: TracedRun(
            traces(list(figure.subjects) or analysis._flows[point.scenario]), cast("Document", {})
        ),
    )


def texts(canvas: Canvas) -> Iterator[Text]:
    """Every text that is drawn; of axes only the numbers within their limits."""
    hidden = set()
    for axes in canvas.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            reach = 1e-6 * (high - low)
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low - reach <= tick.get_loc() <= high + reach:
                    hidden |= {tick.label1, tick.label2}
    for text in canvas.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden:
            yield text


def faults(canvas: Canvas) -> list[str]:
    """Errors in the placement of a figure's texts, as in its first file: the figure itself has drawn them before."""
    canvas.draw_without_rendering()
    drawn = list(texts(canvas))
    boxes = np.array([text.get_window_extent().extents for text in drawn])
    width, height = canvas.bbox.width, canvas.bbox.height
    found = [
        f'"{text.get_text()}" leaves the page'
        for text, (x0, y0, x1, y1) in zip(drawn, boxes, strict=True)
        if x0 < -_SLACK or y0 < -_SLACK or x1 > width + _SLACK or y1 > height + _SLACK
    ]
    lower, upper = boxes[:, None, :2], boxes[:, None, 2:]
    common = np.minimum(upper, boxes[None, :, 2:]) - np.maximum(lower, boxes[None, :, :2])
    for i, j in np.argwhere((common > _SLACK).all(axis=2)):
        if i < j:
            found.append(f'"{drawn[i].get_text()}" and "{drawn[j].get_text()}" overlap')
    if max(canvas.get_size_inches()) > _MAX_INCHES:
        found.append(f"it is {canvas.get_size_inches()} inches")
    return found


@pytest.mark.parametrize("name", shipped())
def test_figure_texts_do_not_overlap_or_leave_the_page(name: str) -> None:
    study = load(shipped()[name])
    analysis = MadeUp(study, study.full)
    found = []
    for figure in study.figures:
        canvas = draw(figure, analysis)
        assert canvas is not None, figure.name
        found += [f"{figure.name}: {fault}" for fault in faults(canvas)]
    assert found == []
