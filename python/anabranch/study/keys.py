"""The keys of study files, each declared once: name, values, default and meaning.

`study.document` reads a file by these classes, `study.schema` makes the JSON schema of them, and the tables of keys in
docs/reference/studies.md are made from that schema. `study.definition` and its neighbours then check what depends on
the rest of a study, such as names of parameters. The text below a key is its description. The kinds of figures in
`anabranch.plot.kinds` declare further keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from anabranch.fairness.capacity import Allocation
from anabranch.metrics import METRICS
from anabranch.stats import Centre, Interval
from anabranch.study.limits import MAX_REPETITIONS
from anabranch.sweep import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

SUM_TOLERANCE = 0.06
"""Default of the share by which two sums of flows may differ and still agree."""

Selection = dict[str, Annotated[Value | list[Value], Meta(extra={"form": "a value or a list of values"})]]
"""Parameter → value or list of values."""
Together = Literal["mean", "median", "smallest", "largest", "sum"]
Statistic = Literal["mean", "median", "std"]
ClaimKind = Literal["value", "at_least", "at_most", "ratio", "difference", "order"]

_Settings = dict[str, Any]
"""Keys of a scenario or of a kind of figures, which the parser of scenarios or the kind checks."""
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
_Repetitions = Annotated[int, Meta(ge=1, le=MAX_REPETITIONS)]


class Keys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a table; others are refused."""


class MoreKeys(Keys):
    """Points that are repeated more often than the others."""

    experiment: str
    """Name of the experiment."""
    where: Selection = {}
    """Selected points: parameter → value or list of values."""
    repetitions: _Repetitions = 1
    """Runs of each point."""


class EffortKeys(Keys):
    """The extent of a form."""

    repetitions: _Repetitions = 1
    """Runs of each point."""
    set: _Settings = {}
    """Scenario keys for every run of this form."""
    values: _Values = {}
    """Values of parameters in this form."""
    more: list[MoreKeys] = []
    """Points that are repeated more often."""


class FormKeys(EffortKeys):
    """A form of the study."""

    real_time: EffortKeys | UnsetType = UNSET
    """The form in worlds where a run takes as long as it lasts; the same form if left out."""


class ParameterKeys(Keys):
    """A dimension of the grid."""

    values: Annotated[list[Value], Meta(min_length=1)]
    """Its values."""
    set: _Settings = {}
    """Scenario keys that each value sets; {name} is the value of a parameter."""
    choice: dict[str, _Settings] = {}
    """Further scenario keys of single values."""
    label: str = ""
    """Name on axes."""
    unit: str = ""
    """Unit on axes."""


class ExperimentKeys(Keys):
    """A grid over a scenario template."""

    scenario: str
    """File of the scenario template; {name} is the value of a parameter."""
    title: str = ""
    """Title for people; the name if left out."""
    over: list[str] = []
    """Parameters of the grid, the last one fastest."""
    set: _Settings = {}
    """Scenario keys for every point."""
    values: _Values = {}
    """Values of parameters in this experiment."""
    quick: _Values = {}
    """Values of parameters in its quick form; an empty list leaves the experiment out."""
    labels: _Words = {}
    """Names of flows, paths, links and hosts for people."""
    theory: bool = False
    """Whether there are claims of theory only, and no runs."""


class MetricKeys(Keys):
    """A metric of the study: an expression or a function."""

    expr: str | UnsetType = UNSET
    """Arithmetic with metrics, such as "goodput(F0) / sum(goodput(flows))"."""
    function: str | UnsetType = UNSET
    """Function in Python, as "FILE.py:NAME"; it needs --allow-code."""
    unit: str | UnsetType = UNSET
    """Unit; that of the expression if left out."""
    label: str = ""
    """Name on axes and in tables; the name of the metric if left out."""


Metrics = dict[str, str | MetricKeys]
"""The table [metric]: the metrics that the study defines, by name. The text `default` names the study's main metric."""


class GroupKeys(Keys):
    """A further line in the table of deviations."""

    name: str
    """Name of the line."""
    experiment: str
    """Name of the experiment."""
    where: Selection = {}
    """Selected points: parameter → value or list of values."""


class PublishedKeys(Keys):
    """Published values to compare with the results."""

    file: str
    """CSV file with a header line."""
    value_column: str
    """Column of the values, in the metric's unit."""
    source: str = ""
    """Source in legends."""
    metric: _Metric = "goodput"
    """The published metric."""
    table_column: str = ""
    """Column with the publication's own tables: a line of deviations for each."""
    flow_column: str = "flow"
    """Column of the flows."""
    flows: _Words = {}
    """Our flow → its text in the flow column."""
    relative_to: str = ""
    """Parameter whose value divides deviations; else the published value."""
    group_by: str = ""
    """Parameter with a line per value in the table of deviations."""
    sum_tolerance: float = SUM_TOLERANCE
    """By how much sums of flows may differ to agree, as a share."""
    printed: Literal["exact", "truncated", "rounded"] = "exact"
    """How the publication prints values."""
    match: _Words = {}
    """Column → its content at a point; {name} is the value of a parameter."""
    experiment: dict[str, _Words] = {}
    """Experiments with published values, and further columns of each."""
    group: list[GroupKeys] = []
    """Further lines in the table of deviations."""


class ReferenceKeys(Keys):
    """A line of known height."""

    label: str
    """Name in the legend."""
    parameter: str = ""
    """Parameter whose value gives the height."""
    allocation: Allocation | UnsetType = UNSET
    """Fair allocation that gives the height, in Mbit/s."""
    of: str = ""
    """Flow whose part of the allocation it is."""
    factor: float = 1.0
    """Multiplies the parameter or the allocation."""
    offset: float = 0.0
    """Added to the product; the height itself of a constant line."""


class FigureKeys(Keys):
    """A figure; its kind decides which of the keys it can have."""

    name: _File
    """Name of the file."""
    title: str = ""
    """Title for people."""
    kind: str = "lines"
    """Kind of figure."""
    width: Literal["page", "column"] = "page"
    """As wide as the panels need, or one column of a two-column page."""
    experiment: str = ""
    """Name of the experiment; may be left out if there is only one."""
    metric: _Metric = ""
    """Metric of the figure; the study's metric if left out."""
    x: str = ""
    """Parameter on the horizontal axis."""
    y: str = ""
    """Parameter on the vertical axis of a heat map."""
    rows: str = ""
    """Parameter with a row of panels per value."""
    columns: str = ""
    """Parameter with a column of panels per value."""
    series: Annotated[
        str | Annotated[list[str], Meta(min_length=1, max_length=2)],
        Meta(extra={"form": "the name of one variable, or a list of two different ones"}),
    ] = "subject"
    """"subject" for a line per flow, path or link, or a parameter with a line per value.

    Of two, the first has colours, the second dashes."""
    subjects: list[str] = []
    """Flows, paths, links or hosts to draw; all if none is named."""
    labels: _Words = {}
    """Names of subjects for people."""
    where: Selection = {}
    """Selected points: parameter → value or list of values."""
    log_x: bool = False
    """Whether the horizontal axis is logarithmic."""
    together: Together | UnsetType = UNSET
    """How the values of several subjects and points become one value."""
    reference: list[ReferenceKeys] = []
    """Lines of known height."""


class StudyKeys(Keys):
    """A study: scenarios, parameters, repetitions, published values, claims and figures."""

    title: str
    """Title for people."""
    experiment: dict[str, ExperimentKeys]
    """Grids over scenario templates, by name."""
    name: _Folder | UnsetType = UNSET
    """Name in seeds and of the folder of results; the folder's if left out."""
    paired: list[str] = []
    """Parameters that stay out of the seed: variants that share it."""
    source: str = ""
    """Origin of the setup."""
    about: str = ""
    """Question of the study; the first paragraph of the report."""
    assumptions: list[str] = []
    """Details that the source leaves open, and their choice here."""
    centre: Centre = "mean"
    """Statistic that a point of a figure shows."""
    interval: Interval | UnsetType = UNSET
    """Kind of intervals: t or bootstrap for a mean, order-statistics or bootstrap for a median."""
    spread: Literal["interval", "std"] = "interval"
    """How reports show the spread of repetitions: by intervals alone, or by the standard deviation too."""
    metric: _Metric | Metrics = "goodput"
    """Metric of the tables; or own metrics by name, with `default` for that of the tables."""
    claims: str = ""
    """File of published statements."""
    full: FormKeys = field(default_factory=FormKeys)
    """The full form."""
    quick: FormKeys = field(default_factory=FormKeys)
    """The quick form."""
    parameter: dict[str, ParameterKeys] = {}
    """Dimensions of the grid, by name."""
    published: PublishedKeys | UnsetType = UNSET
    """Published values."""
    figure: list[_Settings] = []
    """Figures."""


class NeedsKeys(Keys):
    """Least extent of the runs of a claim."""

    duration: str = ""
    """Least duration of a run, such as "300 s"."""
    repetitions: Annotated[int, Meta(ge=1)] = 1
    """Least number of repetitions."""


class QuantityKeys(Keys):
    """A quantity; in `against`, keys that are left out are those of the claim."""

    experiment: str = ""
    """Name of the experiment; may be left out if there is only one."""
    metric: str = ""
    """Metric, or quantity of theory."""
    of: list[str] | UnsetType = UNSET
    """Flows, paths, links or hosts, each for itself."""
    where: Selection = {}
    """Selected points: parameter → value or list of values."""


class ClaimKeys(QuantityKeys, kw_only=True):
    """A published statement; its kind decides which of the keys it needs."""

    id: str
    """Name, unique in the study."""
    text: str
    """The statement in a sentence."""
    kind: ClaimKind
    """Kind of comparison."""
    against: QuantityKeys | UnsetType = UNSET
    """Second quantity of a ratio, a difference or an order."""
    expect: float | UnsetType = UNSET
    """Expected value, or least or greatest one."""
    tolerance: float | UnsetType = UNSET
    """Half the width of the range of expected values."""
    explanation: str = ""
    """Reason why it fails or cannot be measured; reports show it then."""
    world: Literal["run", "theory", "elsewhere"] = "run"
    """Origin of the values: runs, a formula, or neither of them."""
    absolute: bool = False
    """Whether values count without their sign."""
    extreme: Literal["smallest", "largest"] | UnsetType = UNSET
    """Judges only the smallest or largest value of all points."""
    needs: Literal["full"] | NeedsKeys | UnsetType = UNSET
    """Least form of the study that can decide it."""
    statistic: Statistic | UnsetType = UNSET
    """Statistic of the runs; the study's centre if left out."""


class ClaimsKeys(Keys):
    """A file of published statements."""

    claim: list[ClaimKeys] = []
    """Published statements."""


def extended(base: type[Keys], fields: Sequence[tuple[str, Any, Any]]) -> type[Any]:
    """The keys of a class and further ones, each with its name, its values and its default."""
    return msgspec.defstruct(base.__name__, fields, bases=(base,), namespace={"__doc__": base.__doc__}, kw_only=True)
