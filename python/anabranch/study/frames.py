"""The runs of a study as tables on disk: one row per run, flow and path, and one per run and link direction."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import polars as pl

from anabranch.results import flatten

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.study.analysis import Analysis
    from anabranch.study.definition import Run
    from anabranch.study.store import Record


_BATCH = 5_000
"""Runs whose rows are in memory as Python's values at a time."""


def write(analysis: Analysis, folder: Path) -> list[Path]:
    """Write runs.parquet, links.parquet and points.csv into a folder; returns the files."""
    parts: tuple[list[pl.DataFrame], list[pl.DataFrame]] = ([], [])
    for begin in range(0, len(analysis.runs), _BATCH):
        records = [(run, stored.record()) for run, stored in analysis.runs[begin : begin + _BATCH]]
        parts[0].append(frame([row for run, record in records for row in _path_rows(run, record)]))
        parts[1].append(frame([row for run, record in records for row in _link_rows(run, record)]))
    written = []
    for name, found in zip(("runs.parquet", "links.parquet"), parts, strict=True):
        # Made in memory and written from here: what the disk does not take is an OSError then, not one of polars.
        content = io.BytesIO()
        pl.concat(found or [frame([])], how="diagonal_relaxed").write_parquet(content)
        found.clear()
        written.append(_write(folder / name, content.getvalue()))
    return [*written, _write(folder / "points.csv", points(analysis).write_csv().encode())]


def _write(target: Path, content: bytes) -> Path:
    try:
        target.write_bytes(content)
    except OSError as error:
        error.filename = error.filename or str(target)
        raise
    return target


def frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame; a column that a row lacks is null there."""
    return pl.DataFrame(list(rows), infer_schema_length=None)


def points(analysis: Analysis) -> pl.DataFrame:
    """One row per point and flow: ours, its interval, the published value and the deviation."""
    rows = [
        {
            "experiment": c.point.experiment,
            **c.point.values,
            "subject": c.subject,
            "ours": c.ours.centre,
            "low": c.ours.low,
            "high": c.ours.high,
            "confidence": c.ours.confidence,
            "interval": c.ours.interval,
            "runs": c.ours.count,
            "published": c.published,
            "deviation": c.deviation,
        }
        for c in analysis.comparisons
    ]
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


def _path_rows(run: Run, record: Record) -> list[dict[str, Any]]:
    shared = _run_columns(run, record)
    return [
        {**shared, **flatten({k: v for k, v in flow.items() if k != "paths"}, "flow_"), **flatten(path, "path_")}
        for flow in record.document["flows"]
        for path in flow["paths"] or [{}]
    ]


def _link_rows(run: Run, record: Record) -> list[dict[str, Any]]:
    return [{**_run_columns(run, record), **flatten(link, "link_")} for link in record.document["links"]]
