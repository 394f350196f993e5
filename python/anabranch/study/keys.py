"""The keys of study files, each declared once: name, values, default and meaning.

`study.document` reads a file by these classes, `study.schema` makes the JSON schema of them, and the tables of keys in
docs/reference/studies.md are made from that schema. `study.definition` and its neighbours then check what depends on
the rest of a study, such as names of parameters. The kinds of figures in `anabranch.plot.kinds` declare further keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from anabranch.fairness.capacity import Allocation
from anabranch.metrics import METRICS
from anabranch.stats import Centre, Interval
from anabranch.sweep import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_REPETITIONS = 100_000
SUM_TOLERANCE = 0.06
"""By how much two sums of flows may differ to agree, as a share, unless a study says otherwise."""

Selection = dict[str, Annotated[Value | list[Value], Meta(extra={"form": "a value or a list of values"})]]
"""Parameter → value or list of values."""
Together = Literal["mean", "median", "smallest", "largest", "sum"]
Statistic = Literal["mean", "median", "std"]
ClaimKind = Literal["value", "at_least", "at_most", "ratio", "difference", "order"]

_Settings = dict[str, Any]
_Values = dict[str, list[Value]]
_Words = dict[str, Value]
# A pattern that ends with "$" accepts a line end after it.
_END = r"(?![\s\S])"
_Folder = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_][A-Za-z0-9._-]*" + _END,
        extra={"form": 'a name of letters, digits, ".", "-" and "_", since it becomes a folder'},
    ),
]
_File = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9_-]+" + _END,
        extra={"form": 'a name of letters, digits, "-" and "_", since it becomes a file'},
    ),
]
# The list is for completion: a study may also define metrics.
_Metric = Annotated[str, Meta(extra_json_schema={"anyOf": [{"enum": list(METRICS)}, {"type": "string"}]})]
_Repetitions = Annotated[int, Meta(ge=1, le=MAX_REPETITIONS, description="Runs of each point.")]
_Where = Annotated[Selection, Meta(description="Selected points: parameter → value or list of values.")]


def _about(text: str) -> Meta:
    return Meta(description=text)


class Keys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a table; others are refused."""


class MoreKeys(Keys):
    """Points that are repeated more often than the others."""

    experiment: Annotated[str, _about("Name of the experiment.")]
    where: _Where = {}
    repetitions: _Repetitions = 1


class EffortKeys(Keys):
    """The extent of a form."""

    repetitions: _Repetitions = 1
    set: Annotated[_Settings, _about("Scenario keys for every run of this form.")] = {}
    values: Annotated[_Values, _about("Values of parameters in this form.")] = {}
    more: Annotated[list[MoreKeys], _about("Points that are repeated more often.")] = []


class FormKeys(EffortKeys):
    """A form of the study."""

    real_time: Annotated[
        EffortKeys | UnsetType,
        _about("The form in worlds where a run takes as long as it lasts; the same form if left out."),
    ] = UNSET


class ParameterKeys(Keys):
    """A dimension of the grid."""

    values: Annotated[list[Value], Meta(min_length=1, description="Its values.")]
    set: Annotated[_Settings, _about("Scenario keys that each value sets; {name} is the value of a parameter.")] = {}
    choice: Annotated[dict[str, _Settings], _about("Further scenario keys of single values.")] = {}
    label: Annotated[str, _about("Name on axes.")] = ""
    unit: Annotated[str, _about("Unit on axes.")] = ""


class ExperimentKeys(Keys):
    """A grid over a scenario template."""

    scenario: Annotated[str, _about("File of the scenario template; {name} is the value of a parameter.")]
    title: Annotated[str, _about("Title for people; the name if left out.")] = ""
    over: Annotated[list[str], _about("Parameters of the grid, the last one fastest.")] = []
    set: Annotated[_Settings, _about("Scenario keys for every point.")] = {}
    values: Annotated[_Values, _about("Values of parameters in this experiment.")] = {}
    quick: Annotated[
        _Values, _about("Values of parameters in its quick form; an empty list leaves the experiment out.")
    ] = {}
    labels: Annotated[_Words, _about("Names of flows, paths and links for people.")] = {}
    theory: Annotated[bool, _about("Whether there are claims of theory only, and no runs.")] = False


class MetricKeys(Keys):
    """A metric of the study: an expression or a function."""

    expr: Annotated[
        str | UnsetType, _about('Arithmetic with metrics, such as "goodput(F0) / sum(goodput(flows))".')
    ] = UNSET
    function: Annotated[str | UnsetType, _about('Function in Python, as "FILE.py:NAME"; it needs --allow-code.')] = (
        UNSET
    )
    unit: Annotated[str | UnsetType, _about("Unit; that of the expression if left out.")] = UNSET
    label: Annotated[str, _about("Name on axes and in tables; the name of the metric if left out.")] = ""


Metrics = dict[str, str | MetricKeys]
"""The table [metric]: own metrics by name, and `default`."""


class GroupKeys(Keys):
    """A further line in the table of deviations."""

    name: Annotated[str, _about("Name of the line.")]
    experiment: Annotated[str, _about("Name of the experiment.")]
    where: _Where = {}


class PublishedKeys(Keys):
    """Published values to compare with the results."""

    file: Annotated[str, _about("CSV file with a header line.")]
    value_column: Annotated[str, _about("Column of the values, in the metric's unit.")]
    source: Annotated[str, _about("Source in legends.")] = ""
    metric: Annotated[_Metric, _about("The published metric.")] = "goodput"
    table_column: Annotated[str, _about("Column with the publication's own tables: a line of deviations for each.")] = (
        ""
    )
    flow_column: Annotated[str, _about("Column of the flows.")] = "flow"
    flows: Annotated[_Words, _about("Our flow → its text in the flow column.")] = {}
    relative_to: Annotated[str, _about("Parameter whose value divides deviations; else the published value.")] = ""
    group_by: Annotated[str, _about("Parameter with a line per value in the table of deviations.")] = ""
    sum_tolerance: Annotated[float, _about("By how much sums of flows may differ to agree, as a share.")] = (
        SUM_TOLERANCE
    )
    printed: Annotated[Literal["exact", "truncated", "rounded"], _about("How the publication prints values.")] = "exact"
    match: Annotated[_Words, _about("Column → its content at a point; {name} is the value of a parameter.")] = {}
    experiment: Annotated[
        dict[str, _Words], _about("Experiments with published values, and further columns of each.")
    ] = {}
    group: Annotated[list[GroupKeys], _about("Further lines in the table of deviations.")] = []


class ReferenceKeys(Keys):
    """A line of known height."""

    label: Annotated[str, _about("Name in the legend.")]
    parameter: Annotated[str, _about("Parameter whose value gives the height.")] = ""
    allocation: Annotated[Allocation | UnsetType, _about("Fair allocation that gives the height, in Mbit/s.")] = UNSET
    of: Annotated[str, _about("Flow whose part of the allocation it is.")] = ""
    factor: Annotated[float, _about("Multiplies the parameter or the allocation.")] = 1.0
    offset: Annotated[float, _about("Added to the product; the height itself of a constant line.")] = 0.0


class FigureKeys(Keys):
    """A figure; its kind decides which of the keys it can have."""

    name: Annotated[_File, _about("Name of the file.")]
    title: Annotated[str, _about("Title for people.")] = ""
    kind: Annotated[str, _about("Kind of figure.")] = "lines"
    width: Annotated[
        Literal["page", "column"], _about("As wide as the panels need, or one column of a two-column page.")
    ] = "page"
    experiment: Annotated[str, _about("Name of the experiment; may be left out if there is only one.")] = ""
    metric: Annotated[_Metric, _about("Metric of the figure; the study's metric if left out.")] = ""
    x: Annotated[str, _about("Parameter on the horizontal axis.")] = ""
    y: Annotated[str, _about("Parameter on the vertical axis of a heat map.")] = ""
    rows: Annotated[str, _about("Parameter with a row of panels per value.")] = ""
    columns: Annotated[str, _about("Parameter with a column of panels per value.")] = ""
    series: Annotated[
        str | Annotated[list[str], Meta(min_length=1, max_length=2)],
        Meta(
            description='"subject" for a line per flow, path or link, or a parameter with a line per value; of two, '
            "the first has colours, the second dashes.",
            extra={"form": "the name of one variable, or a list of two different ones"},
        ),
    ] = "subject"
    subjects: Annotated[list[str], _about("Flows, paths or links to draw; all if none is named.")] = []
    labels: Annotated[_Words, _about("Names of subjects for people.")] = {}
    where: _Where = {}
    log_x: Annotated[bool, _about("Whether the horizontal axis is logarithmic.")] = False
    together: Annotated[
        Together | UnsetType, _about("How one value is made of those of several subjects and points.")
    ] = UNSET
    reference: Annotated[list[ReferenceKeys], _about("Lines of known height.")] = []


class StudyKeys(Keys):
    """A study: scenarios, parameters, repetitions, published values, claims and figures."""

    title: Annotated[str, _about("Title for people.")]
    experiment: Annotated[dict[str, ExperimentKeys], _about("Grids over scenario templates, by name.")]
    name: Annotated[
        _Folder | UnsetType, _about("Name in seeds and of the folder of results; the folder's if left out.")
    ] = UNSET
    paired: Annotated[list[str], _about("Parameters that stay out of the seed: variants that share it.")] = []
    source: Annotated[str, _about("Origin of the setup.")] = ""
    about: Annotated[str, _about("Question of the study; the first paragraph of the report.")] = ""
    assumptions: Annotated[list[str], _about("Details that the source leaves open, and their choice here.")] = []
    centre: Annotated[Centre, _about("Statistic that a point of a figure shows.")] = "mean"
    interval: Annotated[
        Interval | UnsetType,
        _about("Kind of intervals: t or bootstrap for a mean, order-statistics or bootstrap for a median."),
    ] = UNSET
    spread: Annotated[
        Literal["interval", "std"],
        _about("How reports show the spread of repetitions: by intervals alone, or by the standard deviation too."),
    ] = "interval"
    metric: Annotated[
        _Metric | Metrics,
        _about("Metric of the tables; or own metrics by name, with `default` for that of the tables."),
    ] = "goodput"
    claims: Annotated[str, _about("File of published statements.")] = ""
    full: Annotated[FormKeys, _about("The full form.")] = field(default_factory=FormKeys)
    quick: Annotated[FormKeys, _about("The quick form.")] = field(default_factory=FormKeys)
    parameter: Annotated[dict[str, ParameterKeys], _about("Dimensions of the grid, by name.")] = {}
    published: Annotated[PublishedKeys | UnsetType, _about("Published values.")] = UNSET
    figure: Annotated[list[dict[str, Any]], _about("Figures.")] = []


class NeedsKeys(Keys):
    """Least extent of the runs of a claim."""

    duration: Annotated[str, _about('Least duration of a run, such as "300 s".')] = ""
    repetitions: Annotated[int, Meta(ge=1, description="Least number of repetitions.")] = 1


class QuantityKeys(Keys):
    """A quantity; in `against`, keys that are left out are those of the claim."""

    experiment: Annotated[str, _about("Name of the experiment; may be left out if there is only one.")] = ""
    metric: Annotated[str, _about("Metric, or quantity of theory.")] = ""
    of: Annotated[list[str] | UnsetType, _about("Flows, paths or links, each for itself.")] = UNSET
    where: _Where = {}


class ClaimKeys(QuantityKeys, kw_only=True):
    """A published statement; its kind decides which of the keys it needs."""

    id: Annotated[str, _about("Name, unique in the study.")]
    text: Annotated[str, _about("The statement in a sentence.")]
    kind: Annotated[ClaimKind, _about("Kind of comparison.")]
    against: Annotated[QuantityKeys | UnsetType, _about("Second quantity of a ratio, a difference or an order.")] = (
        UNSET
    )
    expect: Annotated[float | UnsetType, _about("Expected value, or least or greatest one.")] = UNSET
    tolerance: Annotated[float | UnsetType, _about("Half the width of the range of expected values.")] = UNSET
    explanation: Annotated[str, _about("Reason why it fails or cannot be measured; reports show it then.")] = ""
    world: Annotated[
        Literal["run", "theory", "elsewhere"], _about("Origin of the values: runs, a formula, or neither of them.")
    ] = "run"
    absolute: Annotated[bool, _about("Whether values count without their sign.")] = False
    extreme: Annotated[
        Literal["smallest", "largest"] | UnsetType, _about("Judges this value of all points instead of each of them.")
    ] = UNSET
    needs: Annotated[Literal["full"] | NeedsKeys | UnsetType, _about("Least form of the study that can decide it.")] = (
        UNSET
    )
    statistic: Annotated[Statistic | UnsetType, _about("Statistic of the runs; the study's centre if left out.")] = (
        UNSET
    )


class ClaimsKeys(Keys):
    """A file of published statements."""

    claim: Annotated[list[ClaimKeys], _about("Published statements.")] = []


def extended(base: type[Keys], fields: Sequence[tuple[str, Any, Any]]) -> type[Any]:
    """The keys of a class and further ones, each with its name, its values and its default."""
    return msgspec.defstruct(base.__name__, fields, bases=(base,), namespace={"__doc__": base.__doc__}, kw_only=True)
