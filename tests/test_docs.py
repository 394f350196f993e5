"""Documents agree with the program: links resolve, commands and options exist, examples run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from anabranch import run as simulate
from anabranch._core.simulator import version
from anabranch.cli import cli
from anabranch.metrics import METRICS
from anabranch.scenario import Scenario
from anabranch.study.definition import load
from command import anabranch
from command_reference import DOCUMENT, commands, options, with_section

ROOT = Path(__file__).parent.parent
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*PAGES, *sorted(ROOT.glob("*.md")), ROOT / "fuzz/README.md", ROOT / "examples/README.md"]
COUPLED_RATES_TOLERANCE_MBPS = 0.5


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(ROOT / file), re.DOTALL)


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def links(path: Path) -> list[str]:
    """Targets of all relative links and images of a document."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(path)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text_of(path), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_relative_links_resolve(document: Path) -> None:
    for target in links(document):
        file, _, anchor = target.partition("#")
        path = (document.parent / file).resolve() if file else document
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path), target


def test_index_links_each_page_once() -> None:
    linked = [(INDEX.parent / target.partition("#")[0]).resolve() for target in links(INDEX) if target[0] != "#"]
    pages = [path for path in PAGES if path != INDEX]
    assert {name(p): linked.count(p) for p in pages} == {name(p): 1 for p in pages}


def test_pages_stand_in_their_folders() -> None:
    folders = {p.parent.name for p in PAGES if p.parent != INDEX.parent}
    assert folders == {"tutorials", "how-to", "reference", "explanation", "lab-notes"}


def test_lab_notes_name_their_source() -> None:
    generated = {"theory.md"}  # written by `make generate`
    for page in (ROOT / "docs/lab-notes").glob("*.md"):
        dated = re.search(r"\*Last measured 20\d\d-\d\d-\d\d", text_of(page)[:400])
        assert dated or page.name in generated, page.name


def sources() -> list[Path]:
    """All files under version control that may name a document, except for records of changes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    kinds = (".rs", ".py", ".toml", ".md", ".h", ".c", "Makefile")
    # A changed template makes stored runs stale, so comments in templates keep the old name.
    left_out = ("CHANGELOG.md", "lugowski2017-bottleneck/two-flows.toml", "lugowski2017-bottleneck/three-flows.toml")
    return [ROOT / f for f in listed.stdout.split("\0") if f.endswith(kinds) and not f.endswith(left_out)]


def test_sources_name_existing_documents() -> None:
    assert [
        f"{name(path)}: {document}"
        for path in sources()
        if path.exists() and path != Path(__file__)
        for document in re.findall(r"(?<![\w./])(?:\.\./)*(docs/[\w./-]+\.(?:md|json))", text_of(path))
        if not (ROOT / document).exists()
    ] == []


# Commands in documents


def shell_commands(document: Path) -> list[list[str]]:
    """Each call of `anabranch` in shell blocks and code spans of a document, as words after the program's name."""
    text = text_of(document)
    shell = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in shell for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`(anabranch [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    called = [re.search(r"(?:^|[\s(/\"'|])anabranch (.*)", re.sub(r"\s#\s.*", "", line)) for line in [*lines, *spans]]
    return [words_of(match[1]) for match in called if match]


def words_of(call: str) -> list[str]:
    """The words of a call up to a pipe, a redirection or the end of a substitution."""
    call = re.sub(r"\$\([^)]*\)", "FILE", call)
    lexer = shlex.shlex(re.split(r"(?:^| )[|>&] ?|\)|; ", call.strip().rstrip("&"))[0], posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # the call is only a part of a quotation
        return call.rstrip("\"'").split()


def options_of(command: click.Command) -> set[str]:
    return {"-h", "--help"} | {o for p in command.params for o in (*p.opts, *p.secondary_opts)}


def fault(words: list[str]) -> str:
    """Description of the first word that is neither a command nor an option; empty if there is none."""
    command: click.Command = cli
    words = list(words)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0].isupper() or words[0].startswith("["):
            return ""  # a placeholder
        found: click.Command | None = command.get_command(click.Context(command), words[0])
        if found is None and command.name == "observe":
            found = command.get_command(click.Context(command), "watch")  # `observe REMOTE` is short for it
        elif found is None:
            return f"no command {words[0]}"
        else:
            words.pop(0)
        assert found is not None
        command = found
    known = options_of(command)
    for word in words:
        if word == "--":
            break
        option = word.partition("=")[0]
        if re.match(r"--?[A-Za-z]", option) and option not in known:
            return f"{command.name} has no option {option}"
    return ""


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if shell_commands(d)], ids=name)
def test_documented_commands_exist(document: Path) -> None:
    faults = [f"anabranch {' '.join(words)}: {fault(words)}" for words in shell_commands(document) if fault(words)]
    assert faults == []


def test_unknown_commands_are_found() -> None:
    assert fault(["runn", "x.toml"]) == "no command runn"
    assert fault(["study", "run", "x", "--quik"]) == "run has no option --quik"
    assert fault(["emulate", "S.toml", "--", "ping", "--any"]) == ""
    assert fault(["observe", "there.example", "--count", "20"]) == ""


def test_command_line_reference_is_that_of_the_help() -> None:
    assert with_section(text_of(DOCUMENT)) == text_of(DOCUMENT), "stale; run make generate"


def test_every_command_and_option_is_documented() -> None:
    text = text_of(DOCUMENT)
    missing = [command for command, _, _ in commands() if f"\n### {command}\n" not in text]
    assert missing == []
    parts = {part.partition("\n")[0]: part for part in text.split("\n### ")}
    unnamed = [
        f"{command} {option}"
        for command, found, _ in commands()
        for parameter in options(found)
        for option in parameter.opts
        if option not in parts[command]
    ]
    assert unnamed == []


def keys_of(schema: object) -> set[str]:
    """Names of all keys in a JSON schema, at any depth."""
    if isinstance(schema, list):
        return {key for part in schema for key in keys_of(part)}
    if not isinstance(schema, dict):
        return set()
    properties = schema.get("properties", {})
    return {key for key in properties if isinstance(properties, dict)} | keys_of(list(schema.values()))


@pytest.mark.parametrize("page", ["scenario"])
def test_every_key_is_documented(page: str) -> None:
    schema = json.loads(text_of(ROOT / f"docs/reference/{page}.schema.json"))
    keys = keys_of(schema)
    assert len(keys) > 50
    text = text_of(ROOT / f"docs/reference/{page}.md")
    assert [key for key in sorted(keys) if not re.search(rf"\b{re.escape(key)}\b", text)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_documented_make_targets_and_crates_exist(document: Path) -> None:
    text = text_of(document)
    targets = set(re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", text, re.MULTILINE)) <= targets
    manifests = [*ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("apps/*/Cargo.toml")]
    crates = {tomllib.loads(text_of(path))["package"]["name"]: path.parent for path in manifests}
    for crate, test in re.findall(r"cargo \w+ (?:--release )?-p ([\w-]+)(?: --test (\w+))?", text):
        assert crate in crates, crate
        folder = crates[crate] / "tests"
        assert not test or (folder / f"{test}.rs").exists() or (folder / test / "main.rs").exists(), test
    for folder in re.findall(r"cargo install --path ([\w/]+)", text):
        assert (ROOT / folder / "Cargo.toml").exists(), folder
    for file in re.findall(r"`((?:crates|apps|tests|python|vectors|fuzz)/[\w/.-]+\.\w+)`", text):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if "```toml" in text_of(d)], ids=name)
def test_documented_toml_is_valid(document: Path) -> None:
    for block in blocks(name(document), "toml"):
        tomllib.loads(block)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if "```sh" in text_of(d)], ids=name)
def test_shell_blocks_parse(document: Path) -> None:
    for block in blocks(name(document), "sh"):
        subprocess.run(["sh", "-n"], input=block, text=True, check=True, capture_output=True)


# Gallery


def gallery_entries() -> list[str]:
    """The parts of the gallery with one figure each."""
    return text_of(ROOT / "docs/gallery.md").split("\n### ")[1:]


def test_each_figure_names_its_file_and_command() -> None:
    entries = gallery_entries()
    assert len(entries) >= 10
    for entry in entries:
        (image,) = re.findall(r"!\[[^]]{20,}\]\(images/([\w.-]+)\)", entry)
        assert (ROOT / "docs/images" / image).exists()
        assert re.search(r"^File: \[[\w.-]+\.toml\]\(\.\./", entry, re.MULTILINE), entry
        (block,) = re.findall(r"```sh\n(.*?)```", entry, re.DOTALL)
        assert f"--plot {image}" in block or "anabranch study run" in block


def test_gallery_shows_every_kind_of_plot_of_a_run() -> None:
    (kinds,) = [o.type for _, c, _ in commands() for o in options(c) if c.name == "run" and "--plot-kind" in o.opts]
    assert isinstance(kinds, click.Choice)
    blocks_of_runs = "".join(blocks("docs/gallery.md", "sh"))
    assert [kind for kind in kinds.choices if kind != "windows" and f"--plot-kind {kind}" not in blocks_of_runs] == []


@pytest.mark.parametrize("entry", [e for e in gallery_entries() if "--plot " in e], ids=lambda e: e.partition("\n")[0])
def test_gallery_command_draws_its_figure(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", entry, re.DOTALL)
    example = re.search(r'"\$\(anabranch examples ([\w-]+)\)"', block)
    assert example is not None
    file = ROOT / f"examples/{example[1]}.toml"
    words = shlex.split(block.replace(example[0], str(file)))[1:]
    done = anabranch(*words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / words[words.index("--plot") + 1]).stat().st_size > 10_000


# README


def readme_commands() -> list[list[str]]:
    lines = [line for block in blocks("README.md", "sh") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("anabranch ")]


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half-bottleneck.toml").write_text(blocks("README.md", "toml")[0], encoding="utf-8")
    return tmp_path


def test_readme_commands_on_scenarios(in_folder: Path) -> None:
    commands = [c for c in readme_commands() if c[0] != "study"]
    assert len(commands) >= 5
    for command in commands:
        done = anabranch(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout
    (megabytes,) = re.findall(r"The capture above takes (\d+) MB", text_of(ROOT / "README.md"))
    assert (in_folder / "packets.pcapng").stat().st_size * 1e-6 == pytest.approx(int(megabytes), rel=0.05)
    with (in_folder / "packets.pcapng").open("rb") as capture:
        head = capture.read(10_000)  # the capture begins with its interfaces
    (end,) = re.findall(r'frame.interface_name == "([^"]+)"', text_of(ROOT / "README.md"))
    assert end.encode() in head
    assert (in_folder / "windows.png").stat().st_size > 1000
    assert list((in_folder / "traces").iterdir())


def test_readme_commands_on_studies_are_accepted(in_folder: Path) -> None:
    commands = [c for c in readme_commands() if c[0] == "study"]
    assert commands[0] == ["study", "list"]
    assert "lugowski2017-bottleneck" in anabranch(*commands[0]).stdout
    assert anabranch(*commands[-1]).returncode == 2  # nothing has been run in this folder


def test_readme_python_runs(in_folder: Path) -> None:
    (code,) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})


def test_citation_names_this_version() -> None:
    assert f"\nversion: {version()}\n" in text_of(ROOT / "CITATION.cff")
    (entry,) = blocks("docs/cite.md", "bibtex")
    assert f"version = {{{version()}}}" in entry
    (title,) = re.findall(r'^title: "(.+)"$', text_of(ROOT / "CITATION.cff"), re.MULTILINE)
    assert f"title   = {{{title}}}" in entry


# Paper


def test_paper_has_the_sections_of_the_journal() -> None:
    text = text_of(ROOT / "paper.md")
    sections = re.findall(r"^# (.+)$", text, re.MULTILINE)
    required = ["Summary", "Statement of need", "State of the field", "Software design", "Research impact statement"]
    assert [section for section in required if section not in sections] == []
    assert sections[-1] == "References"
    assert 750 <= len(text.partition("# Summary")[2].split()) <= 1750


def test_paper_cites_exactly_its_bibliography() -> None:
    cited = set(re.findall(r"@([a-z]+\d+\w*)", text_of(ROOT / "paper.md")))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text_of(ROOT / "paper.bib"), re.MULTILINE))


# Tutorials and how-to pages


def test_stepping_how_to_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("docs/how-to/step.md", "python")
    exec(compile(code, "docs/how-to/step.md", "exec"), {})
    # Half of the run at 8 Mbit/s, half at 2 Mbit/s.
    assert 4e6 < float(capsys.readouterr().out) < 5.2e6


def test_page_on_own_algorithms_runs(capsys: pytest.CaptureFixture[str]) -> None:
    session: dict[str, object] = {}
    for code in blocks("docs/how-to/own-algorithm.md", "python"):
        exec(compile(code, "docs/how-to/own-algorithm.md", "exec"), session)
    assert 10e6 < float(capsys.readouterr().out) < 12e6


def test_page_on_environments_beats_round_robin(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium", reason='gymnasium is not installed; install "anabranch[gym]"')
    (code,) = blocks("docs/how-to/gymnasium.md", "python")
    exec(compile(code, "docs/how-to/gymnasium.md", "exec"), {})
    policy, baseline = map(float, re.findall(r"([\d.]+) Mbit/s", capsys.readouterr().out))
    assert policy > 1.1 * baseline


def test_python_tutorial_prints_its_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(ROOT / "docs/tutorials/first-simulation.md")
    session: dict[str, object] = {}
    printed, compared = "", 0
    for language, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if language == "python":
            exec(compile(block, "docs/tutorials/first-simulation.md", "exec"), session)
            printed = capsys.readouterr().out
        else:
            assert block in printed
            compared += 1
    assert compared == 4


def test_classroom_prints_its_fair_shares() -> None:
    (shown,) = blocks("docs/tutorials/classroom.md", "text")
    assert shown in anabranch("fair", str(ROOT / "examples/half-bottleneck.toml")).stdout


def classroom_goodputs() -> dict[str, list[float]]:
    rows = re.findall(r"^\| (\w+)[^|]*\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text_of(
        ROOT / "docs/tutorials/classroom.md"), re.MULTILINE)  # fmt: skip
    return {control: [float(value) for value in values] for control, *values in rows}


@pytest.mark.parametrize("control", ["reno", "lia", "olia", "balia"])
def test_classroom_goodputs_are_those_of_the_command(control: str) -> None:
    scenario = Scenario.from_file(ROOT / "examples/half-bottleneck.toml")
    settings = {"flow.F0.congestion": control, "duration": "60 s", "warmup": "10 s"}
    for key, value in settings.items():
        scenario = scenario.set(key, value)
    first, second = simulate(scenario, seed=1).document["flows"]
    measured = [p["goodput_bps"] * 1e-6 for p in first["paths"]] + [second["goodput_bps"] * 1e-6]
    assert classroom_goodputs()[control] == pytest.approx(measured, abs=COUPLED_RATES_TOLERANCE_MBPS)


def test_study_of_the_how_to_loads(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(blocks("docs/how-to/studies.md", "toml")[0], encoding="utf-8")
    example = text_of(ROOT / "examples/two-flows.toml")
    (tmp_path / "scenario.toml").write_text(example, encoding="utf-8")
    assert load(tmp_path).title == "Two flows and a queue"


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.toml")))
def test_examples_are_valid(example: str) -> None:
    Scenario.from_file(ROOT / "examples" / example)


def test_all_metrics_are_documented() -> None:
    text = text_of(ROOT / "docs/reference/studies.md")
    for metric in METRICS:
        assert f"`{metric}`" in text, metric
