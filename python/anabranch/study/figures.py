"""Figures that a study asks for, as values. `study.figure_reader` reads them, and `anabranch.plot.kinds` draws them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure as Canvas

    from anabranch.study.claims import Claim
    from anabranch.study.document import Table
    from anabranch.study.scope import Scope
    from anabranch.sweep import Value


def _accept(_table: Table[Any], _scope: Scope, _value: Any) -> None:
    """Accept every value of the type."""


@dataclass(frozen=True)
class Key:
    """A key that only some kinds of figures have."""

    name: str
    kind: Any
    """Type of its values, with their description as `msgspec.Meta`."""
    default: Any
    check: Callable[[Table[Any], Scope, Any], None] = _accept
    """Checks a value of that type further."""

    def read(self, table: Table[Any], scope: Scope) -> Any:
        """The value in a table, or the default.

        Raises:
            InputError: If the value fails the check of the key.

        """
        if table.has(self.name):
            self.check(table, scope, getattr(table.keys, self.name))
        return getattr(table.keys, self.name)


class Kind(ABC):
    """A kind of figure: its keys, its traits and its drawing. A file in `anabranch.plot.kinds` defines each."""

    name: ClassVar[str]
    required: ClassVar[tuple[str, ...]] = ()
    """The parameters that such a figure must name: "x" or "y"."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """The keys that it shares with some other kinds; all figures have further ones."""
    keys: ClassVar[tuple[Key, ...]] = ()
    """The keys that it declares, alone or with a few kinds."""
    has_series: ClassVar[bool] = False
    """Whether it has a legend with an entry for each series."""
    has_places: ClassVar[bool] = False
    """Whether each mark stands for one point, at a position on the horizontal axis."""
    is_scaled: ClassVar[bool] = False
    """Whether the horizontal axis is a scale where values are numbers; marks of a series are then joined."""
    shows_published: ClassVar[bool] = False
    """Whether it can show marks for published values, and for a second world."""
    has_dashes: ClassVar[bool] = False
    """Whether each series has its own dash, besides its colour."""
    shows_samples: ClassVar[bool] = False
    """Whether it shows the values of all repetitions in place of their centre."""
    is_over_time: ClassVar[bool] = False
    """Whether it draws traces of single runs in place of a metric."""

    subjects_of: ClassVar[str] = "goodput"
    """For a figure over time: the metric whose subjects are the valid values of `subjects`, such as the flows of
    "goodput"."""

    @abstractmethod
    def draw(self, figure: Figure, analysis: Any, traces: Any) -> Canvas | None:
        """Draw a figure; `None` if none of its points were run.

        Args:
            figure: A figure of this kind.
            analysis: The finished runs, an `Analysis`.
            traces: A function that repeats the n-th run of a point and returns it with its traces.

        """


@dataclass(frozen=True)
class Reference:
    """A reference line whose height is known without a run, such as a link's capacity or a fair share."""

    label: str
    parameter: str
    """Parameter whose value gives the height; "" for an allocation or a constant."""
    factor: float
    """Multiplies the value of the parameter or the allocation."""
    offset: float
    """Added to the product; the height itself of a constant."""
    allocation: str
    """Fair allocation that gives the height, in place of a parameter, in Mbit/s; "" for none."""
    flow: str
    """Flow whose part of the allocation it is."""

    def height(self, values: Mapping[str, Value]) -> float:
        """Height at a point of a line that follows no allocation."""
        return self.offset + (self.factor * float(values[self.parameter]) if self.parameter else 0.0)


@dataclass(frozen=True)
class Figure:
    """A figure: panels of lines, bars or boxes over a parameter, distributions, heat maps, or windows over time."""

    name: str
    title: str
    kind: Kind
    experiment: str
    metric: str
    x: str
    """Parameter on the horizontal axis."""
    y: str
    """Parameter on the vertical axis of a heat map; "" for all other kinds."""
    rows: str
    """Parameter with one row of panels per value; "" for one row."""
    columns: str
    """Parameter with one column of panels per value; "" for one column."""
    series: str
    """"subject" for a line per flow, path or link, or a parameter with a line per value; its colours."""
    dashes: str
    """The same for the dashes of lines and the hatches of bars: a second variable of the series; "" for none."""
    subjects: tuple[str, ...]
    """Which subjects to draw; empty for all."""
    labels: Mapping[str, str]
    """Names of subjects for people, where they differ from the experiment's."""
    where: Mapping[str, Any]
    """Which points to draw."""
    references: tuple[Reference, ...]
    log_x: bool
    together: str
    """How the values of several points and subjects become one value: one of `keys.Together`; "" if it is not set.

    A cell of a heat map takes the centres of its points together, all other kinds the values of each repetition."""
    width: str
    """"page" for as wide as the panels need, "column" for one column of a two-column page."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the keys that only its kind has."""
    is_implied: bool = False
    """Whether `series` was chosen automatically: the file sets none, and the figure shows all parameters but one."""

    @property
    def window(self) -> tuple[float, float]:
        """Span of time of a figure over time, seconds; (0, 0) for the whole run."""
        begin, end = self.options.get("window") or (0.0, 0.0)
        return (begin, end)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the series: `series` and, if it has one, `dashes`."""
        return (self.series, self.dashes) if self.dashes else (self.series,)

    @property
    def shows_claims(self) -> bool:
        """Whether it has marks for published statements."""
        return bool(self.options.get("claims"))

    @property
    def shows_published(self) -> bool:
        """Whether it has marks for published values, where the study has some of its metric."""
        return self.kind.shows_published and not self.together and bool(self.options.get("published", True))

    @property
    def log_y(self) -> bool:
        """Whether the vertical axis is logarithmic."""
        return bool(self.options.get("log_y"))

    @property
    def is_grey(self) -> bool:
        """Whether it is drawn in shades of grey."""
        return bool(self.options.get("grey"))

    @property
    def legend(self) -> str:
        """Place of the legend: "below", "right" or "none"."""
        return str(self.options.get("legend", "below"))

    def states(self, claim: Claim) -> bool:
        """Whether it marks a statement: a value, or a least or greatest one, of its metric at single points."""
        quantity = claim.quantity
        is_bound = claim.kind in ("value", "at_least", "at_most")
        is_plain = claim.world == "run" and not (claim.statistic or claim.extreme or claim.absolute)
        is_drawn = not self.subjects or any(subject in self.subjects for subject in quantity.subjects)
        is_here = (quantity.experiment, quantity.metric) == (self.experiment, self.metric)
        return is_bound and is_plain and is_drawn and is_here

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it shows; none for traces."""
        return () if self.kind.is_over_time else (self.metric,)
