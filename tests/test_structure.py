"""Structure rules: no cycles among Rust files, crates and Python modules, and names of test files.

A Rust file needs another if it names an item that is defined there. A re-export (`pub use`) is no need; the re-exported
item counts for the file that defines it. Code for tests does not count. A Python module needs another if it imports it,
also under `TYPE_CHECKING` or inside a function.

"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CRATES = {
    path.parent.name: path.parent for folder in ("crates", "apps") for path in (ROOT / folder).glob("*/Cargo.toml")
}
PACKAGE = ROOT / "python" / "anabranch"

Module = tuple[str, ...]
"""Module path of a file in its crate: `("tcp", "rack")` is `tcp/rack.rs`, `()` is `lib.rs`."""

_DEFINED = re.compile(
    r"^(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async )*"
    r"(?:fn|struct|enum|trait|static|type|const|macro_rules!) ([A-Za-z_]\w*)",
    re.MULTILINE,
)
_USE = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
_TESTS_INSIDE = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
_TESTS_BESIDE = re.compile(r"#\[cfg\(test\)\]\n(?:pub(?:\([^)]*\))? )?mod (\w+);")
_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"')


@dataclass
class File:
    """The items that a file defines, imports and names."""

    defined: set[str]
    imported: dict[str, list[str]] = field(default_factory=dict)
    """Full path of each item by the name under which this file uses it, re-exports included."""
    named: list[list[str]] = field(default_factory=list)
    """Paths that the file itself uses."""


def read(crate: Path) -> dict[Module, File]:
    """The files of a crate without its test modules."""
    source = crate / "src"
    texts = {module_of(path.relative_to(source)): path.read_text(encoding="utf-8") for path in source.rglob("*.rs")}
    tests = {(*module, name) for module, text in texts.items() for name in _TESTS_BESIDE.findall(text)}
    return {
        module: parse(text) for module, text in texts.items() if not any(module[: len(test)] == test for test in tests)
    }


def module_of(path: Path) -> Module:
    """The module path of a file below `src`."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"lib", "mod", "main"} else parts


def parse(text: str) -> File:
    """Reads the definitions, imports and paths of a file's text."""
    code = _COMMENT_OR_TEXT.sub("", _TESTS_INSIDE.sub("", text))
    found = File(set(_DEFINED.findall(code)))
    for public, tree in _USE.findall(code):
        for path, name in leaves(tree):
            found.imported[name] = path
            if not public:
                found.named.append(path)
    found.named += [path.split("::") for path in _PATH.findall(_USE.sub("", code))]
    return found


def leaves(tree: str) -> list[tuple[list[str], str]]:
    """The paths of a `use` tree, each with the name that it has in the file."""
    tree = tree.strip().removeprefix("::")
    if "{" not in tree:
        path, _, alias = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::")]
        return [(parts[:-1] if parts[-1] == "self" and len(parts) > 1 else parts, alias.strip() or parts[-1])]
    prefix, _, rest = tree.partition("{")
    found, depth, start = [], 0, 0
    inner = rest.rstrip().removesuffix("}") + ","
    for at, sign in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            if part := inner[start:at].strip():
                found += leaves(prefix.strip() + part)
            start = at + 1
    return [(path, path[-1] if name == "self" else name) for path, name in found]


def home(files: dict[Module, File], module: Module, path: list[str], depth: int = 0) -> Module | None:
    """The file that defines the item of a path; `None` for an item of another crate."""
    first, *rest = path
    if first == "crate":
        place: Module = ()
    elif first == "self":
        place = module
    elif first == "super":
        place = module[:-1]
    elif (*module, first) in files:
        place = (*module, first)
    else:
        return None
    for at, part in enumerate(rest):
        if part == "super":
            place = place[:-1]
        elif (*place, part) in files:
            place = (*place, part)
        elif place in files and part not in files[place].defined and part in files[place].imported and depth < 8:
            return home(files, place, [*files[place].imported[part], *rest[at + 1 :]], depth + 1)
        else:
            break
    return place if place in files else None


def needs(files: dict[Module, File]) -> dict[Module, set[Module]]:
    """The files that each file needs."""
    found = {module: {home(files, module, path) for path in file.named} for module, file in files.items()}
    return {module: {other for other in others if other is not None and other != module}
            for module, others in found.items()}  # fmt: skip


def cycles(graph: dict[Module, set[Module]]) -> list[set[Module]]:
    """The groups of files that need each other, directly or through other files."""
    reachable: dict[Module, set[Module]] = {}
    for start in graph:
        seen: set[Module] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        reachable[start] = seen
    groups: list[set[Module]] = []
    for module in sorted(graph):
        if module in reachable[module] and not any(module in group for group in groups):
            groups.append({other for other in reachable[module] if module in reachable[other]})
    return groups


def shown(module: Module) -> str:
    """The dotted name of a file's module."""
    return "/".join(module) or "lib"


def complaints(graph: dict[Module, set[Module]]) -> str:
    """One line for each module of a cycle; empty if there is none."""
    return "\n".join(
        f"{shown(module)} needs {', '.join(sorted(shown(other) for other in graph[module] & group))}"
        for group in cycles(graph)
        for module in sorted(group)
    )


def crate_graph(manifests: dict[str, str]) -> dict[Module, set[Module]]:
    """The crates that each crate depends on, by its manifest; dependencies of tests do not count."""
    found: dict[Module, set[Module]] = {}
    for crate, text in manifests.items():
        manifest = tomllib.loads(text)
        tables = [manifest, *manifest.get("target", {}).values()]
        named = {name.removeprefix("anabranch-") for table in tables for name in table.get("dependencies", {})}
        found[crate,] = {(name,) for name in named & manifests.keys()}
    return found


def python_graph(package: str, sources: dict[Module, tuple[str, bool]]) -> dict[Module, set[Module]]:
    """The modules that each Python module imports; `sources` has the text of each and whether it is a package."""
    graph: dict[Module, set[Module]] = {}
    for module, (text, is_package) in sources.items():
        parent = module if is_package else module[:-1]
        found: set[Module] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                base = parent[: len(parent) - node.level + 1] if node.level else ()
                origin = (*base, *(node.module.split(".") if node.module else ()))
                for alias in node.names:
                    found |= {(*origin, alias.name)} & sources.keys() or {origin} & sources.keys() - {(package,)}
                    if origin == (package,) and (*origin, alias.name) not in sources and not alias.name.startswith("_"):
                        found.add(origin)
            elif isinstance(node, ast.Import):
                found |= {tuple(alias.name.split(".")) for alias in node.names} & sources.keys()
        graph[module] = found - {module}
    return graph


def python_sources() -> dict[Module, tuple[str, bool]]:
    """The modules of the package by their paths."""
    found: dict[Module, tuple[str, bool]] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found[parts[:-1] if is_package else parts] = (path.read_text(encoding="utf-8"), is_package)
    return found


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_files_of_a_crate_have_no_cycle(crate: str) -> None:
    assert complaints(needs(read(CRATES[crate]))) == ""


def test_folders_of_sctp_use_only_later_ones() -> None:
    folders = ["association", "extensions", "sender", "receiver", "path"]
    arrows = {
        (module[0], needed[0])
        for module, found in needs(read(CRATES["sctp"])).items()
        for needed in found
        if len(module) > 1 and len(needed) > 1 and module[0] != needed[0]
    }
    assert arrows  # the graph is not empty
    assert [arrow for arrow in sorted(arrows) if folders.index(arrow[0]) > folders.index(arrow[1])] == []


def test_only_tests_that_load_controls_begin_with_k() -> None:
    """`make test` runs files of integration tests by the first letter of their names."""
    folders = [path / "tests" for path in CRATES.values()]
    names = {path.stem for folder in folders if folder.is_dir() for path in folder.iterdir()}
    assert "kernel_controls" in names
    assert all(name.startswith("kernel_") for name in names if name.startswith("k"))


def test_crates_have_no_cycle() -> None:
    manifests = {crate: (path / "Cargo.toml").read_text(encoding="utf-8") for crate, path in CRATES.items()}
    assert complaints(crate_graph(manifests)) == ""


def test_python_modules_have_no_cycle() -> None:
    assert complaints(python_graph("anabranch", python_sources())) == ""


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_test_modules_are_named_as_such(crate: str) -> None:
    source = CRATES[crate] / "src"
    odd = [
        str(path.relative_to(source))
        for path in source.rglob("*.rs")
        if "#[test]" in _TESTS_INSIDE.sub("", path.read_text(encoding="utf-8"))
        and not (path.name == "tests.rs" or path.stem.endswith("_tests") or "tests" in path.parts)
    ]
    assert odd == []


@pytest.mark.parametrize("crate", sorted(CRATES))
def test_no_crate_includes_files_of_another(crate: str) -> None:
    folder = CRATES[crate].resolve()
    foreign = [
        f"{file.relative_to(folder)}: {target}"
        for file in folder.rglob("*.rs")
        for target in re.findall(r'#\[path = "([^"]+)"\]', file.read_text(encoding="utf-8"))
        if not (file.parent / target).resolve().is_relative_to(folder)
    ]
    assert foreign == []


def test_planted_cycle_of_crates_is_found() -> None:
    manifests = {"a": "[dependencies]\nanabranch-b.workspace = true\n", "b": "[dependencies]\nserde = '1'\n"}
    assert cycles(crate_graph(manifests)) == []
    manifests["b"] = "[target.'cfg(unix)'.dependencies]\nanabranch-a.workspace = true\n"
    assert cycles(crate_graph(manifests)) == [{("a",), ("b",)}]


def test_planted_cycle_of_python_modules_is_found() -> None:
    sources = {
        ("p",): ("from .a import x\n", True),
        ("p", "a"): ("if TYPE_CHECKING:\n    from .b import y\n", False),
        ("p", "b"): ("from . import _native\n", False),
    }
    assert cycles(python_graph("p", sources)) == []
    sources["p", "b"] = ("def f():\n    from .a import x\n", False)
    assert cycles(python_graph("p", sources)) == [{("p", "a"), ("p", "b")}]


def test_planted_cycle_of_files_is_found() -> None:
    files = {
        (): parse("mod a;\nmod b;\npub use a::First;\n"),
        ("a",): parse("use crate::b::Second;\npub struct First(Second);\n"),
        ("b",): parse("pub struct Second;\n#[cfg(test)]\nmod tests {\n    use crate::First;\n}\n"),
    }
    assert cycles(needs(files)) == []
    files[("b",)] = parse("use super::{First};\npub struct Second(Box<First>);\n")
    assert cycles(needs(files)) == [{("a",), ("b",)}]
