"""The worked example of the page on verdicts: its output and its arithmetic."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from statistics import NormalDist

import polars as pl
import pytest
from scipy import stats

from command import anabranch

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "verdicts.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the page's study."""
    folder = tmp_path_factory.mktemp("page") / "losses"
    folder.mkdir()
    for file, block in re.findall(r"`losses/(\w+\.toml)`:\n\n```toml\n(.*?)```", TEXT, re.DOTALL):
        (folder / file).write_text(block, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {"scenario.toml", "study.toml", "claims.toml"}
    return folder


def row(name: str) -> list[float]:
    """The five goodputs of a row of the page, Mbit/s."""
    found = re.search(rf"\| `{re.escape(name)}` \| ([0-9. |]+) \|\n", TEXT)
    assert found is not None
    return [float(value) for value in found[1].split(" | ")]


def test_example_prints_the_shown_verdicts(study: Path) -> None:
    results = study.parent / "results"
    done = anabranch("study", "run", str(study), "--results", str(results))
    assert done.returncode == 0, done.stderr
    shown = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    assert shown[1].strip() in printed
    runs = pl.read_parquet(results / "losses" / "full" / "runs.parquet").sort("repetition")
    for loss in (0.001, 0.01):
        goodputs = (runs.filter(pl.col("loss") == loss)["flow_goodput_bps"] / 1e6).to_list()
        assert row(f"loss = {loss}") == pytest.approx(goodputs, abs=0.0005)


def test_arithmetic_of_the_page_is_right() -> None:
    first, second = row("loss = 0.001"), row("loss = 0.01")
    for name, values, level in (("first", first, 0.95), ("second", second, 0.975)):
        mean, deviation = statistics.fmean(values), statistics.stdev(values)
        quantile = stats.t.ppf(0.5 + level / 2, 4)
        reach = quantile * deviation / 5**0.5
        for number in (f"{mean:.3f}", f"{deviation:.3f}", f"{quantile:.3f}"):
            assert number in TEXT, (name, number)
        assert f"[{mean - reach:.2f}, {mean + reach:.2f}]" in TEXT
    reaches = [stats.t.ppf(0.975, n - 1) * statistics.stdev(first) / n**0.5 for n in (8, 9)]
    distance = statistics.fmean(first) - 10
    assert reaches[1] < distance < reaches[0]
    assert f"distance of `ten` to its bound is {distance:.3f}" in TEXT
    assert f"± {reaches[1]:.3f}" in TEXT


def test_errors_of_means_alone_are_right() -> None:
    of_difference, of_mean = 0.2 * (2 / 3) ** 0.5, 0.2 / 3**0.5
    order, false_bound = NormalDist(0.1, of_difference), NormalDist(9.9, 10 * of_mean)
    once, often = 100 * (1 - order.cdf(0)), 100 * (1 - order.cdf(0)) ** 10
    assert f"passes with a probability of {once:.0f} % at one point, and of {often:.0f} % if" in TEXT
    assert f"passes with a probability of {100 * (1 - false_bound.cdf(10)):.0f} % |" in TEXT
