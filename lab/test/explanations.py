"""Answers of the package for the tests of explanations: `python explanations.py NAME < INPUT.json`.

- `explanations`: one for each case, which has `text`, `flow`, `aim`, `seed` and `reps`.
- `texts`: of all `values` by `repr` and by all `specs`.
- `costs`: of linear programmes with `costs`, `uses` and `limits`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from anabranch import InputError, Scenario
from anabranch.explain.explanation import Options, explain
from anabranch.fairness.solver import solve
from anabranch.report.explanation import head, summary_of_others


def explained(case: dict[str, Any]) -> dict[str, Any]:
    """The explanation of a case, or the message that refuses it."""
    options = Options(case["flow"], case["aim"], case["seed"], case["reps"], 1, 600.0)
    try:
        found = explain(Scenario.from_toml(case["text"], "scenario"), options)
    except InputError as error:
        return {"message": error.message}
    sentences = [{"sentence": each.sentence, "command": each.command} for each in found.findings]
    others = summary_of_others(found.others) if found.others else None
    return {"document": found.document(), "head": head(found), "sentences": sentences, "others": others}


def answer(name: str, given: Any) -> list[Any]:
    """The answer to an input."""
    if name == "texts":
        return [[repr(value), *(format(value, spec) for spec in given["specs"])] for value in given["values"]]
    if name == "costs":
        return [solve(each["costs"], each["uses"], each["limits"]).cost for each in given]
    return [explained(case) for case in given]


if __name__ == "__main__":
    json.dump(answer(sys.argv[1], json.load(sys.stdin)), sys.stdout)
