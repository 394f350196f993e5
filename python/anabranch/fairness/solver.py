"""The solver of linear programmes, HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.errors import RunFailed

FEASIBILITY = 1e-10
"""The smallest tolerance that the solver accepts, in units of the largest rate."""

_OPTIONS: dict[str, bool | int | float | str] = {
    "output_flag": False,
    # The dual simplex method gives a vertex, exact except for rounding; interior points would not.
    "solver": "simplex",
    "simplex_strategy": 1,
    "threads": 1,
    "primal_feasibility_tolerance": FEASIBILITY,
    "dual_feasibility_tolerance": FEASIBILITY,
}


@dataclass(frozen=True)
class Solution:
    """An optimum of a linear programme."""

    cost: float
    values: Any
    """Values of the variables."""
    prices: Any
    """Change of the cost for each unit of the limit of a row; 0 or negative."""


def solve(costs: Any, uses: Any, limits: Any) -> Solution:
    """The smallest cost with `uses @ x <= limits` and x >= 0.

    Raises:
        RunFailed: If the solver does not find a solution.

    """
    import highspy
    import numpy as np

    solver = highspy.Highs()
    for name, value in _OPTIONS.items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS refuses its option {name}")
    solver.passModel(_model(np.asarray(costs, dtype=float), np.asarray(uses, dtype=float), limits))
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        state = solver.modelStatusToString(solver.getModelStatus())
        raise RunFailed(f"the solver found no solution for the rates of the network: {state}")
    found = solver.getSolution()
    return Solution(solver.getObjectiveValue(), np.array(found.col_value), np.array(found.row_dual))


def _model(costs: Any, uses: Any, limits: Any) -> Any:
    import highspy
    import numpy as np

    count, width = uses.shape
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = count, width
    model.col_cost_, model.col_lower_, model.col_upper_ = costs, np.zeros(width), np.full(width, highspy.kHighsInf)
    model.row_lower_, model.row_upper_ = np.full(count, -highspy.kHighsInf), np.asarray(limits, dtype=float)
    rows, columns = np.nonzero(uses)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    model.a_matrix_.index_ = columns
    model.a_matrix_.value_ = uses[rows, columns]
    return model
