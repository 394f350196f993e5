"""The runs of a study as tables on disk: one row per run, flow and path, and one per run and link direction.

The columns follow from the layout of results and the parameters of the study alone. Tables with keys that depend on the
protocol, such as counters, are one column each: a list of keys and values.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anabranch.study.collection import collection_paused
from anabranch.study.columns import Parts, series, text_series
from anabranch.study.layout import SCHEMA, parts
from anabranch.sweep import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anabranch.study.analysis import Analysis, Batch
    from anabranch.study.model import Study
    from anabranch.study.part_columns import Numbers


def write(analysis: Analysis, folder: Path) -> list[Path]:
    """Write runs.parquet, links.parquet and points.csv into a folder; returns the files."""
    schemas = {"runs": _schema(analysis.study, FLOW, PATH), "links": _schema(analysis.study, LINK)}
    with tempfile.TemporaryDirectory(prefix=".parts-", dir=folder) as place, collection_paused():
        files = [Parts(Path(place), name, schema) for name, schema in schemas.items()]
        for batch in analysis.batches():
            if batch.runs:
                for part, frame in zip(files, _frames(batch, *schemas.values()), strict=True):
                    part.add(frame)
            del batch
        written = [folder / f"{name}.parquet" for name in schemas]
        for target, part in zip(written, files, strict=True):
            with _named(target):
                part.write(target)
    target = folder / "points.csv"
    with _named(target):
        target.write_bytes(points(analysis).write_csv().encode())
    return [*written, target]


@contextlib.contextmanager
def _named(target: Path) -> Iterator[None]:
    """Add the name of the file to errors of the system."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(target)
        raise


def frame(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame:
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


SHARED: dict[str, pl.DataType] = {
    "experiment": pl.String(), "repetition": pl.Int64(), "seed": pl.Int64(), "schema": pl.Int64(),
    "digest": pl.String(), "version": pl.String(), "build": pl.String(), "host_cpu": pl.String(),
    "host_system": pl.String(), "jain": pl.Float64(), "events": pl.Int64(), "wall_s": pl.Float64(),
}  # fmt: skip
"""The columns that all rows of a run share, without the parameters."""
_OF_DOCUMENTS = ("digest", "version", "jain", "events", "wall_s")
"""Those of them that are keys of documents."""
FLOW, PATH, LINK = ("flow_", "FlowResult"), ("path_", "PathResult"), ("link_", "LinkResult")
"""Parts of a result whose keys are columns, each with the prefix of these."""


def _schema(study: Study, *parts: tuple[str, str]) -> dict[str, pl.DataType]:
    """The columns of a table."""
    shared = dict(SHARED)
    schema = {"experiment": shared.pop("experiment")}
    schema |= {name: _parameter_type(study, name) for name in study.parameters}
    schema |= shared
    for prefix, part in parts:
        schema |= _part_columns(prefix, part)
    return schema


def _parameter_type(study: Study, name: str) -> pl.DataType:
    """The type of a parameter's column. Whole numbers have the type of all others, so that tables can be joined."""
    lists = [study.values(name, e, form) for form in study.forms for e in study.experiments.values() if name in e.over]
    values = [value for found in (*lists, study.parameters[name].values) for value in found]
    if all(isinstance(value, bool) for value in values):
        return pl.Boolean()
    return pl.String() if any(isinstance(value, bool | str) for value in values) else pl.Float64()


def _part_columns(prefix: str, part: str) -> dict[str, pl.DataType]:
    """The columns of a part of a result; nested parts are flattened, lists of parts have their own tables."""
    columns: dict[str, pl.DataType] = {}
    for key in parts()[part].values():
        name = f"{prefix}{key.name}"
        if key.type in parts():
            columns |= _part_columns(f"{name}_", key.type)
        elif (kind := _column_type(key.type)) is not None:
            columns[name] = kind
    return columns


def _column_type(kind: str) -> pl.DataType | None:
    """The type of a column for values of a type in Rust; `None` for lists of parts."""
    simple = {"String": pl.String(), "bool": pl.Boolean(), "f64": pl.Float64(), "Vec<String>": pl.List(pl.String())}
    if kind in simple:
        return simple[kind]
    if kind.startswith("u"):
        return pl.Int64()
    if kind.startswith("BTreeMap<"):
        inner = kind.partition(",")[2][:-1]
        # A value of a table may be unknown; every column can hold null.
        inner = inner[len("Option<") : -1] if inner.startswith("Option<") else inner
        # Linux writes an unlimited pacing rate as the largest number of 64 bits.
        value = pl.UInt64() if inner.startswith("u") else _column_type(inner)
        return None if value is None else pl.List(pl.Struct({"key": pl.String(), "value": value}))
    return None


def _run_columns(batch: Batch, schema: Mapping[str, pl.DataType]) -> Iterator[pl.Series]:
    """The columns that all rows of a run share, with one value per run."""
    runs, records, documents = batch.runs, batch.records, batch.parts.documents
    yield text_series("build", records.builds)
    yield text_series("host_cpu", records.host("cpu"))
    yield text_series("host_system", records.host("system"))
    yield from series(documents, "", {name: schema[name] for name in _OF_DOCUMENTS})
    shared: dict[str, Sequence[Any]] = {
        "experiment": [run.point.experiment for run in runs],
        "repetition": [run.repetition for run in runs],
        "seed": [run.seed for run in runs],
        "schema": [SCHEMA] * len(runs),
    }
    for name, values in shared.items():
        yield pl.Series(name, values, schema[name], strict=False)
    for name in dict.fromkeys(name for run in runs for name in run.point.values):
        values = [run.point.values.get(name) for run in runs]
        if schema[name] == pl.String():
            values = [value if value is None else plain(value) for value in values]
        yield pl.Series(name, values, schema[name], strict=False)


def _frame(schema: Mapping[str, pl.DataType], height: int, columns: Iterable[pl.Series]) -> pl.DataFrame:
    """All columns of a schema in its order; one that is not given is null."""
    found = {column.name: column for column in columns}
    return pl.DataFrame([
        found[name] if name in found else pl.Series(name, [None] * height, kind) for name, kind in schema.items()
    ])  # fmt: skip


def _frames(
    batch: Batch, runs: Mapping[str, pl.DataType], links: Mapping[str, pl.DataType]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One row per run, flow and path, and one per run and link direction."""
    found = batch.parts
    shared = pl.DataFrame([*_run_columns(batch, runs)])
    # A flow without a path has one row, in which the columns of the path are null.
    pathless = np.setdiff1d(np.arange(found.flows.height), found.flow_of_path)
    flow_of_row = np.concatenate([found.flow_of_path, pathless])
    order = np.argsort(flow_of_row, kind="stable")
    paths = pl.arange(found.paths.height, dtype=pl.UInt32, eager=True).extend_constant(None, len(pathless))
    path_of_row, flow_of_row = paths[_places(order)], flow_of_row[order]
    by_path = [
        *shared[_places(found.run_of_flow[flow_of_row])],
        *pl.DataFrame([*series(found.flows, FLOW[0], runs)])[_places(flow_of_row)],
        *pl.DataFrame([*series(found.paths, PATH[0], runs)])[path_of_row],
    ]
    by_link = [*shared[_places(found.run_of_link)], *series(found.links, LINK[0], links)]
    return _frame(runs, len(flow_of_row), by_path), _frame(links, found.links.height, by_link)


def _places(rows: Numbers) -> pl.Series:
    """Indices of rows as polars takes them without a further step."""
    return pl.Series(rows, dtype=pl.UInt32)
