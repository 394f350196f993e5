"""Reports as pages: complete in one file, without requests, safe against hostile texts, and reproducible."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
import shlex
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from matplotlib.figure import Figure

import anabranch
import fake_simulator
import small_study
from anabranch._core.simulator import Request
from anabranch.html.figure import embed
from anabranch.plot import spots
from anabranch.report.run_page import page_of as run_page
from anabranch.report.write import write_all
from anabranch.study.analysis import Analysis
from anabranch.study.definition import load
from anabranch.study.engine import Plan
from anabranch.study.store import read
from command import anabranch as command

if TYPE_CHECKING:
    from pathlib import Path

MAX_PAGE_BYTES = 10e6
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\\\" & 'x'"
VOID = {"meta", "link", "br", "img", "input", "hr", "path", "use", "image", "circle", "rect"}


class Page(HTMLParser):
    """Elements of a page with their attributes, and whether all are closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for found, attributes in self.elements if found == tag]


def study_page(folder: Path, **changes: str) -> str:
    study = load(small_study.write(folder / "study", **changes))
    plan = Plan(study, study.full, folder / "results", fake_simulator.simulate, "b1", 1)
    small_study.execute_quietly(study, plan.folder, plan.backend)
    target = folder / "report.html"
    with read(plan.folder) as store:
        write_all(Analysis(study, study.full, store.records), plan, target)
    return target.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return study_page(tmp_path_factory.mktemp("page"), study=small_study.STUDY + small_study.WINDOWS)


def assert_is_safe(text: str) -> None:
    """The page has one script, whose digest its policy names, no handlers, and no address outside the file."""
    page = Page(text)
    assert page.faults == []
    assert page.open == []
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert len(page.all("script")) == 1
    named = [value for _, attributes in page.elements for key, value in attributes.items() if key in ("src", "href")]
    named += [attributes["xlink:href"] for _, attributes in page.elements if "xlink:href" in attributes]
    assert [value for value in named if not value.startswith(("#", "data:"))] == []
    assert [key for _, attributes in page.elements for key in attributes if key.startswith("on")] == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert sorted({i for i in ids if ids.count(i) > 1 and i.startswith(("p", "claim-", "file-"))}) == []
    assert [value for value in named if value.startswith("#") and value[1:] not in ids] == []


def test_study_page_is_complete_and_safe(text: str) -> None:
    assert_is_safe(text)
    assert len(text) < MAX_PAGE_BYTES
    for part in ("A study for tests", "Source: Author 2000", "Full form: 12 runs of 12.", "Published statements"):
        assert part in text
    assert text.count("data-outcome=") == 4
    assert len(Page(text).all("svg")) == 2


def test_spots_have_value_interval_and_publication(text: str) -> None:
    titles = re.findall(r"<circle[^>]*><title>(.*?)</title>", text, re.DOTALL)
    assert len(titles) == 8  # two rates, two controls, two flows
    assert sum("published" in title for title in titles) == 4
    (first,) = [t for t in titles if "Capacity: 10 Mbit/s" in t and "reno" in t and "published 5" in t]
    assert re.search(r"\n\d\.\d{3} Mbit/s \(± \d+\.\d\d\)\npublished 5 Mbit/s$", first)


def test_spot_lies_on_its_value() -> None:
    figure = Figure(figsize=(4.0, 3.0))  # 288 points wide and 216 points high
    axes = figure.add_axes((0.25, 0.5, 0.5, 0.25))  # from 72 to 216, and from 108 to 54 points from the top
    axes.set_xlim(0.0, 10.0)
    axes.set_ylim(0.0, 100.0)
    spots.add(axes, spots.Spot(5.0, 50.0, None, None, (), 50.0))
    shown = embed(figure, "f", "A figure", (), lambda spot: (str(spot.value), []))
    assert 'cx="144.0" cy="81.0"' in shown.svg
    assert "<title>50.0</title>" in shown.svg


def test_series_are_classes_of_their_artists(text: str) -> None:
    figure = next(part for part in text.split("<h3>") if part.startswith("Goodput of two flows"))
    assert re.findall(r'data-shows="(\d)">([^<]+)<', figure) == [("0", "F0"), ("1", "reno")]
    assert {"series s0", "series s1"} <= {a.get("class", "") for a in Page(figure).all("g")}


def test_curves_have_names_and_times(text: str) -> None:
    curves = [json.loads(html.unescape(found)) for found in re.findall(r'data-curves="([^"]*)"', text)]
    (panels,) = [found for found in curves if found]
    assert {panel["label"] for panel in panels} == {"Time [s]"}
    assert all(curve["x"] == sorted(curve["x"]) for panel in panels for curve in panel["curves"])
    assert any(curve["name"] for panel in panels for curve in panel["curves"])


def test_statements_stand_at_their_figure(text: str) -> None:
    figure = next(part for part in text.split("<h3>") if part.startswith("Goodput of two flows"))
    assert 'href="#claim-share"' in figure
    assert "At 10 Mbit/s the first flow gets about half" in figure


def test_command_of_a_point_repeats_its_run(text: str) -> None:
    details = re.findall(r"<pre>(anabranch run [^<]*)</pre><pre>(.*?)</pre>", text, re.DOTALL)
    assert len(details) == 4
    for shown, runs in details:
        words = shlex.split(html.unescape(shown))
        assert words[2] == "scenario.toml"
        seed = int(words[words.index("--seed") + 1])
        settings = [word for before, word in itertools.pairwise(words) if before == "--set"]
        again = fake_simulator.simulate(Request(small_study.SCENARIO, "scenario.toml", tuple(settings), seed))
        assert runs.startswith(f"seed {seed}  digest {again['digest']}\n")
    (data,) = re.findall(r'href="data:application/octet-stream;base64,([^"]+)"', text)
    assert base64.b64decode(data).decode() == small_study.SCENARIO


def test_hostile_texts_are_escaped(tmp_path: Path) -> None:
    quoted = HOSTILE.replace("\\", "")
    literal = json.dumps(quoted)
    study = small_study.STUDY.replace('title = "A study for tests"', f"title = {literal}")
    study = study.replace('title = "Goodput of two flows"', f"title = {literal}")
    study = study.replace('label = "Capacity"\nunit', f"label = {literal}\nunit").replace('"Author 2000"', literal)
    claims = small_study.CLAIMS.replace('"Both flows get the same"', literal)
    text = study_page(tmp_path, study=study, claims=claims)
    assert_is_safe(text)
    assert "<img" not in text
    assert text.count(html.escape(quoted)) > 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    title = json.dumps(HOSTILE)
    (folder / "net.toml").write_text(small_study.SCENARIO.replace('"Two flows"', title), encoding="utf-8")
    return folder


def test_run_page_is_complete_and_safe(folder: Path) -> None:
    target = folder / "run.html"
    done = command("run", str(folder / "net.toml"), "--set", "duration=6 s", "--seed", "3", "--html", str(target))
    assert done.returncode == 0, done.stderr
    text = target.read_text(encoding="utf-8")
    assert_is_safe(text)
    assert "<pre>anabranch run net.toml --set &#x27;duration=6 s&#x27; --seed 3</pre>" in text
    (digest,) = re.findall(r"digest ([0-9a-f]{16})", done.stdout)
    assert f"digest {digest}" in text
    assert len(Page(text).all("svg")) == 5
    assert text.count("<td") > 20


def test_missing_figure_of_a_run_has_a_sentence(folder: Path) -> None:
    scenario = anabranch.Scenario.from_file(folder / "net.toml").set("duration", "4 s")
    result = anabranch.run(scenario, seed=1, trace=folder / "traces")
    (folder / "traces/transfers.csv").unlink()
    text = run_page(result, scenario)
    assert "there is no goodput over time" in text
    assert len(Page(text).all("svg")) == 4


def test_notebook_shows_the_table_of_the_run(folder: Path) -> None:
    scenario = anabranch.Scenario.from_file(folder / "net.toml").set("duration", "4 s")
    result = anabranch.run(scenario, seed=1)
    shown = result._repr_html_()
    assert shown.split("<p>")[0] in run_page(anabranch.run(scenario, seed=1, trace=folder / "again"), scenario)
    assert str(result.digest) in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "{net}", "--html", ""), '--html needs the name of a file, not ""'),
        (("run", "{net}", "--html", "{folder}"), "--html needs the name of a file"),
        (("run", "{net}", "--pcap", "{folder}/p", "--html", "{folder}/none/x.html"), "its folder does not exist"),
        (("run", "{net}", "--pcap", "{folder}/p", "--plot", "{folder}/none/x.png"), "its folder does not exist"),
        (("explain", "{net}", "--plot", "{folder}/none/x.png"), "its folder does not exist"),
        (("explain", "{folder}/absent.pcap", "--plot", "{folder}/none/x.png"), "its folder does not exist"),
        (("fair", "{net}", "--plot", "{folder}/none/x.png"), "its folder does not exist"),
        (("observe", "report", "{folder}/absent", "--plot", "{folder}/none/x.png"), "its folder does not exist"),
        (("study", "report", "couple", "--world", "sim,user", "--html"), "--html has the report of one world"),
        (("study", "report", "couple", "--results", "{folder}", "--html", "{folder}"), "is a folder; name a file"),
    ],
)
def test_wrong_file_of_a_page_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = command(*(word.format(net=folder / "net.toml", folder=folder) for word in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (folder / "p").exists(), "nothing ran"


KINDS = """
[[figure]]
name = "map"
title = "A map"
kind = "heat"
x = "capacity"
y = "congestion"
metric = "goodput"
together = "largest"

[[figure]]
name = "boxes"
title = "Boxes"
kind = "box"
x = "capacity"
columns = "congestion"

[[figure]]
name = "bars"
title = "Bars"
kind = "bar"
x = "capacity"
columns = "congestion"

[[figure]]
name = "shares"
title = "Distributions"
kind = "cdf"
columns = "congestion"
"""


def test_every_kind_of_figure_is_embedded(tmp_path: Path) -> None:
    text = study_page(tmp_path, study=small_study.STUDY + KINDS)
    assert_is_safe(text)
    figures = {part.partition("</h3>")[0]: part for part in text.split("<h3>")[1:]}
    counts = {title: len(Page(part).all("circle")) for title, part in figures.items() if "<svg" in part}
    # A cell for each pair of rate and control; a mark for each of these and each flow; no marks of distributions.
    assert counts == {"Goodput of two flows": 8, "A map": 4, "Boxes": 8, "Bars": 8, "Distributions": 0}
    assert "Capacity: 10 Mbit/s\nCongestion control: reno\n" in html.unescape(figures["A map"])
    assert all("series s1" in figures[title] for title in ("Boxes", "Bars", "Distributions"))
