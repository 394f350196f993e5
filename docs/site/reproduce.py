"""Runs the quick form of every study, draws the figures of single runs, and writes a table of verdicts.

`make reproduce` writes results/reproduce.md; finished runs are not repeated. With `--readme` the table also replaces
that of README.md.
"""

from __future__ import annotations

import csv
import json
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import figures

from anabranch.study.library import shipped

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
TABLE = RESULTS / "reproduce.md"
BEGIN, END = "<!-- verdicts: written by `make reproduce` -->\n", "<!-- end of verdicts -->\n"
OUTCOMES = ("pass", "fail", "undecided", "incomplete", "needs more", "not run")


@dataclass(frozen=True)
class Row:
    """Result of a study in its quick form."""

    study: str
    runs: int
    outcomes: dict[str, int]
    deviations: list[float]
    """|ours − published| / reference at each published value."""
    seconds: float
    """Processor time."""

    @property
    def cells(self) -> list[str]:
        """Cells of the table, by `HEAD`."""
        counted = [str(self.outcomes.get(outcome, 0)) if self.outcomes else "–" for outcome in OUTCOMES]
        count = len(self.deviations)
        median = f"{100 * statistics.median(self.deviations):.1f} % of {count}" if count else "–"
        return [f"`{self.study}`", f"{self.runs:,}", *counted, median, f"{self.seconds:.0f} s"]


HEAD = ["study", "runs", *OUTCOMES, "median deviation of published values", "processor time"]


def processor_seconds() -> float:
    """Processor time of all commands that have ended; a busy machine does not change it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reproduce(study: str) -> Row:
    """Run the missing runs of a study and read its verdicts and deviations."""
    begin = processor_seconds()
    command = [sys.executable, "-m", "anabranch", "study", "run", study, "--quick", "--resume", "--json"]
    done = subprocess.run([*command, "--results", str(RESULTS)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{study}: ended with status {done.returncode}")
    found = json.loads(done.stdout)
    outcomes = [verdict["outcome"] for verdict in found["verdicts"]]
    with (RESULTS / study / "quick/points.csv").open(encoding="utf-8", newline="") as file:
        cells = [row.get("deviation", "") for row in csv.DictReader(file)]
    deviations = [abs(float(cell)) for cell in cells if cell]
    counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
    return Row(study, found["runs"], counts, deviations, processor_seconds() - begin)


def table(rows: list[Row]) -> str:
    """The rows and their sums as Markdown."""
    together = {outcome: sum(row.outcomes.get(outcome, 0) for row in rows) for outcome in OUTCOMES}
    every = [deviation for row in rows for deviation in row.deviations]
    total = Row("all", sum(row.runs for row in rows), together, every, sum(row.seconds for row in rows))
    lines = [HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *(row.cells for row in [*rows, total])]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("`all`", "all")


def replace_in_readme(text: str) -> None:
    """Put a table between the marks of README.md."""
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run everything; returns the exit status."""
    rows = []
    for study in shipped():
        rows.append(reproduce(study))
        print(" · ".join(rows[-1].cells), flush=True)
        RESULTS.mkdir(exist_ok=True)
        TABLE.write_text(table(rows), encoding="utf-8")
    if "--readme" in arguments:
        replace_in_readme(table(rows))
    print(f"Table: {TABLE.relative_to(ROOT)}; figures of each study: results/STUDY/quick/figures")
    return figures.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
