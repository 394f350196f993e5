"""The runs of a study as tables on disk: one row per run, flow and path, and one per run and link direction."""

from __future__ import annotations

import collections
import contextlib
import itertools
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from anabranch.study.columns import Columns, Parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from anabranch.study.analysis import Analysis
    from anabranch.study.definition import Run
    from anabranch.study.store import Record


_BATCH = 5_000
"""Runs whose rows are in memory at a time."""


def write(analysis: Analysis, folder: Path) -> list[Path]:
    """Write runs.parquet, links.parquet and points.csv into a folder; returns the files."""
    names = ("runs", "links")
    with tempfile.TemporaryDirectory(prefix=".parts-", dir=folder) as place:
        parts = [Parts(Path(place), name) for name in names]
        records = analysis.records()
        for _ in range(0, len(analysis.runs), _BATCH):
            for part, columns in zip(parts, _columns(itertools.islice(records, _BATCH)), strict=True):
                part.add(columns.frame())
        collections.deque(records, maxlen=0)
        written = [folder / f"{name}.parquet" for name in names]
        for target, part in zip(written, parts, strict=True):
            with _named(target):
                part.write(target)
    target = folder / "points.csv"
    with _named(target):
        target.write_bytes(points(analysis).write_csv().encode())
    return [*written, target]


@contextlib.contextmanager
def _named(target: Path) -> Iterator[None]:
    """Name the file in what goes wrong with it."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(target)
        raise


def frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame; a column that a row lacks is null there."""
    return pl.DataFrame(list(rows), infer_schema_length=None)


def points(analysis: Analysis) -> pl.DataFrame:
    """One row per point, metric and subject: centre, interval, mean, median and standard deviation of the runs.

    The metrics are those that a table, a figure or a claim uses. Published values are of one metric.
    """
    compared = {(c.point.key, c.subject): c for c in analysis.comparisons}
    rows = []
    for point in analysis.points():
        for metric in analysis.study.metrics_of(point.experiment):
            samples = analysis.samples(point, metric)
            for subject, ours in analysis.estimates(point, metric).items():
                comparison = compared.get((point.key, subject)) if metric == analysis.study.tabulated else None
                rows.append(
                    {
                        "experiment": point.experiment,
                        **point.values,
                        "subject": subject,
                        "metric": metric,
                        "unit": analysis.study.metrics[metric].unit,
                        "ours": ours.centre,
                        "mean": statistics.fmean(samples[subject]),
                        "median": statistics.median(samples[subject]),
                        "std": statistics.stdev(samples[subject]) if ours.count > 1 else None,
                        "n": ours.count,
                        "low": ours.low,
                        "high": ours.high,
                        "confidence": ours.confidence,
                        "interval": ours.interval,
                        "published": comparison.published if comparison else None,
                        "deviation": comparison.deviation if comparison else None,
                    }
                )
    return frame(rows)


def _run_columns(run: Run, record: Record) -> dict[str, Any]:
    """Columns that all rows of a run share."""
    document = record.document
    return {
        "experiment": run.point.experiment,
        **run.point.values,
        "repetition": run.repetition,
        "seed": run.seed,
        "digest": document["digest"],
        "version": document["version"],
        "build": record.build,
        "host_cpu": record.host.get("cpu", ""),
        "host_system": record.host.get("system", ""),
        "jain": document["jain"],
        "events": document["events"],
        "wall_s": document["wall_s"],
    }


def _columns(records: Iterable[tuple[Run, Record]]) -> tuple[Columns, Columns]:
    """One row per run, flow and path, and one per run and link direction."""
    paths, links = Columns(), Columns()
    for run, record in records:
        shared = _run_columns(run, record)
        for flow in record.document["flows"]:
            own = {k: v for k, v in flow.items() if k != "paths"}
            for path in flow["paths"] or [{}]:
                paths.add(("", shared), ("flow_", own), ("path_", path))
        for link in record.document["links"]:
            links.add(("", shared), ("link_", link))
    return paths, links
