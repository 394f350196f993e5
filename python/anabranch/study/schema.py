"""The JSON schema of study.toml, for editors: all keys, their types and their meanings.

`study.definition` reads the file and has the last word: it also knows what names what. A test holds the keys of both
against each other.
"""

from __future__ import annotations

from typing import Any

from anabranch.fairness.capacity import ALLOCATION_NAMES
from anabranch.metrics import METRICS
from anabranch.plot.kinds import KINDS
from anabranch.stats import INTERVALS
from anabranch.study.definition import MAX_REPETITIONS, SPREADS
from anabranch.study.figures import TOGETHER, WIDTHS
from anabranch.study.own_metrics import DEFAULT

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}
_KEYS: Schema = {"type": "object"}


def schema() -> Schema:
    """JSON schema of study.toml, as a value that JSON can hold."""
    root = _table(
        {
            "title": _text("Title for people."),
            "name": _text("Name in seeds and of the folder of results; the folder's if left out."),
            "paired": _list(_TEXT, "Parameters that stay out of the seed: variants that share it."),
            "source": _text("Where the setup comes from."),
            "about": _text("Question of the study; the first paragraph of the report."),
            "assumptions": _list(_TEXT, "Details that the source leaves open, and their choice here."),
            "centre": _one(tuple(INTERVALS), "Statistic that a point of a figure shows."),
            "interval": _one(
                tuple(dict.fromkeys(i for found in INTERVALS.values() for i in found)),
                "How intervals are found: t or bootstrap for a mean, order-statistics or bootstrap for a median.",
            ),
            "spread": _one(SPREADS, "How reports show the spread of the repetitions."),
            "metric": {"anyOf": [_metric("Metric of the tables."), _own_metrics()]},
            "claims": _text("File of published statements."),
            "full": _form("full"),
            "quick": _form("quick"),
            "parameter": _named(_parameter(), "Dimensions of the grid, by name."),
            "experiment": _named(_experiment(), "Grids over scenario templates, by name."),
            "published": _published(),
            "figure": {"type": "array", "items": _figure(), "description": "Figures."},
        },
        "A study: scenarios, parameters, repetitions, published values, claims and figures.",
        required=("title", "experiment"),
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Anabranch study", **root}


def _form(name: str) -> Schema:
    form = _effort(f"The {name} form of the study.")
    real_time = _effort(f"The {name} form in worlds where a run takes as long as it lasts, if it is another.")
    return {**form, "properties": {**form["properties"], "real_time": real_time}}


def _effort(description: str) -> Schema:
    repetitions = {"type": "integer", "minimum": 1, "maximum": MAX_REPETITIONS, "description": "Runs of each point."}
    more = _table(
        {"experiment": _text("Which experiment."), "where": _where(), "repetitions": repetitions},
        "Points that are repeated more often than the others.",
        required=("experiment", "repetitions"),
    )
    return _table(
        {
            "repetitions": repetitions,
            "set": _settings("Scenario keys for every run of this form."),
            "values": _values("Values of parameters in this form."),
            "more": {"type": "array", "items": more, "description": "Points that are repeated more often."},
        },
        description,
    )


def _parameter() -> Schema:
    return _table(
        {
            "values": _list(_SCALAR, "The values it takes.", least=1),
            "set": _settings("Scenario keys that each value sets; {name} is the value of a parameter."),
            "choice": {"type": "object", "additionalProperties": _KEYS, "description": "Further keys, by value."},
            "label": _text("Name on axes."),
            "unit": _text("Unit on axes."),
        },
        "A dimension of the grid.",
        required=("values",),
    )


def _experiment() -> Schema:
    return _table(
        {
            "title": _text("Title for people."),
            "scenario": _text("File of the scenario template; {name} is the value of a parameter."),
            "over": _list(_TEXT, "Parameters of the grid, the last one fastest."),
            "set": _settings("Scenario keys for every point."),
            "values": _values("Values of parameters in this experiment."),
            "quick": _values("The same in its quick form; an empty list leaves the experiment out."),
            "labels": _words("Names of flows, paths and links for people."),
            "theory": {"type": "boolean", "description": "Whether there are claims of theory only, and no runs."},
        },
        "A grid over a scenario template.",
        required=("scenario",),
    )


def _published() -> Schema:
    group = _table(
        {"name": _text("Name of the line."), "experiment": _text("Which experiment."), "where": _where()},
        "A further line in the table of deviations.",
        required=("name", "experiment"),
    )
    return _table(
        {
            "file": _text("CSV file with a header line."),
            "source": _text("Source in legends."),
            "metric": _metric("The published metric."),
            "value_column": _text("Column of the values, in the metric's unit."),
            "table_column": _text("Column with the publication's own tables: a line of deviations for each."),
            "flow_column": _text("Column of the flows."),
            "flows": _words("Our flow → its text in the flow column."),
            "relative_to": _text("Parameter whose value divides deviations."),
            "group_by": _text("Parameter with a line per value in the table of deviations."),
            "sum_tolerance": {**_NUMBER, "description": "By how much sums may differ to agree, as a share."},
            "printed": _one(("exact", "truncated", "rounded"), "How the publication prints values."),
            "match": _words("Column → what it holds at a point."),
            "experiment": {"type": "object", "additionalProperties": _KEYS, "description": "Further columns."},
            "group": {"type": "array", "items": group, "description": "Further lines in the table of deviations."},
        },
        "Published values to compare with the results.",
        required=("file", "value_column"),
    )


def _figure() -> Schema:
    reference = _table(
        {
            "label": _text("Name in the legend."),
            "parameter": _text("Parameter whose value gives the height."),
            "allocation": _one(ALLOCATION_NAMES, "Fair allocation that gives the height, in Mbit/s."),
            "of": _text("Flow whose part of the allocation it is."),
            "factor": {**_NUMBER, "description": "Multiplies the parameter or the allocation."},
            "offset": {**_NUMBER, "description": "Added to the product; the height itself of a constant line."},
        },
        "A line of known height.",
        required=("label",),
    )
    return _table(
        {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9_-]+$", "description": "Name of the file."},
            "title": _text("Title for people."),
            "kind": _one(tuple(KINDS), "Kind of figure."),
            "width": _one(WIDTHS, "As wide as the panels need, or one column of a two-column page."),
            "experiment": _text("Which experiment; may be left out if there is only one."),
            "metric": _metric("Metric of the figure; the study's metric if left out."),
            "x": _text("Parameter on the horizontal axis."),
            "y": _text("Parameter on the vertical axis of a heat map."),
            "rows": _text("Parameter with a row of panels per value."),
            "columns": _text("Parameter with a column of panels per value."),
            "series": {
                "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": 2}],
                "description": '"subject" for a line per flow, path or link, or a parameter with a line per value; of '
                "two, the first has colours, the second dashes.",
            },
            "subjects": _list(_TEXT, "Flows, paths or links to draw; all if none is named."),
            "labels": _words("Names of subjects for people."),
            "where": _where(),
            "log_x": {"type": "boolean", "description": "Whether the horizontal axis is logarithmic."},
            "together": _one(TOGETHER, "How one value is made of those of several subjects and points."),
            **{key.name: dict(key.schema) for kind in KINDS.values() for key in kind.keys},
            "reference": {"type": "array", "items": reference, "description": "Lines of known height."},
        },
        "A figure.",
        required=("name",),
    )


def _metric(description: str) -> Schema:
    # The list is for completion; a study may also define metrics.
    return {"anyOf": [{"enum": list(METRICS)}, _TEXT], "description": description}


def _own_metrics() -> Schema:
    own = _table(
        {
            "expr": _text('Arithmetic with metrics, such as "goodput(F0) / sum(goodput(flows))".'),
            "function": _text('Function in Python, as "FILE.py:NAME"; it needs --allow-code.'),
            "unit": _text("Unit; that of the expression if left out."),
            "label": _text("Name on axes and in tables."),
        },
        "A metric of the study: an expression or a function.",
    )
    own["oneOf"] = [{"required": ["expr"]}, {"required": ["function"]}]
    return {
        "type": "object",
        "properties": {DEFAULT: _metric("Metric of the tables.")},
        "additionalProperties": own,
        "description": "Own metrics by name.",
    }


def _table(properties: Schema, description: str, required: tuple[str, ...] = ()) -> Schema:
    table = {"type": "object", "description": description, "properties": properties, "additionalProperties": False}
    return {**table, "required": list(required)} if required else table


def _named(table: Schema, description: str) -> Schema:
    return {"type": "object", "additionalProperties": table, "description": description}


def _text(description: str) -> Schema:
    return {**_TEXT, "description": description}


def _one(allowed: tuple[str, ...], description: str) -> Schema:
    return {"enum": list(allowed), "description": description}


def _list(items: Schema, description: str, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "description": description}


def _settings(description: str) -> Schema:
    return {**_KEYS, "description": description}


def _values(description: str) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "array", "items": _SCALAR}, "description": description}


def _words(description: str) -> Schema:
    return {"type": "object", "additionalProperties": _SCALAR, "description": description}


def _where() -> Schema:
    choice = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
    return {"type": "object", "additionalProperties": choice, "description": "Parameter → value or list of values."}
