"""The house rule that no two files of a crate need each other, read from their `use` lines and paths.

A file needs another if it names something that is defined there. Handing on (`pub use`) is no need of one's own, and
what is handed on counts for where it is defined; code for tests does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CRATES = Path(__file__).parent.parent / "crates"

Module = tuple[str, ...]
"""Where a file stands in its crate: `("tcp", "rack")` is `tcp/rack.rs`, `()` is `lib.rs`."""

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
    """What one file says about others."""

    defined: set[str]
    imported: dict[str, list[str]] = field(default_factory=dict)
    """Path by the name it has here, handed on or not."""
    named: list[list[str]] = field(default_factory=list)
    """Paths that the file itself makes use of."""


def read(crate: Path) -> dict[Module, File]:
    """The files of a crate without those that are for tests."""
    source = crate / "src"
    texts = {module_of(path.relative_to(source)): path.read_text(encoding="utf-8") for path in source.rglob("*.rs")}
    tests = {(*module, name) for module, text in texts.items() for name in _TESTS_BESIDE.findall(text)}
    return {
        module: parse(text) for module, text in texts.items() if not any(module[: len(test)] == test for test in tests)
    }


def module_of(path: Path) -> Module:
    """Where a file stands, by its path below `src`."""
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in {"lib", "mod", "main"} else parts


def parse(text: str) -> File:
    """What the text of a file says."""
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
    """The paths of a use tree, each with the name it gets."""
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
    """The file that defines what a path means in a file; `None` for what is not of this crate."""
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
    """Which files each file needs."""
    found = {module: {home(files, module, path) for path in file.named} for module, file in files.items()}
    return {module: {other for other in others if other is not None and other != module}
            for module, others in found.items()}  # fmt: skip


def cycles(graph: dict[Module, set[Module]]) -> list[set[Module]]:
    """The groups of files that need each other, directly or around a corner."""
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
    """The module as its file is spoken of."""
    return "/".join(module) or "lib"


@pytest.mark.parametrize("crate", sorted(path.parent.name for path in CRATES.glob("*/Cargo.toml")))
def test_no_two_files_need_each_other(crate: str) -> None:
    graph = needs(read(CRATES / crate))
    groups = cycles(graph)
    complaints = [
        f"{shown(module)} needs {', '.join(sorted(shown(other) for other in graph[module] & group))}"
        for group in groups
        for module in sorted(group)
    ]
    assert not groups, f"cycles of files in {crate}:\n" + "\n".join(complaints)


def test_a_cycle_is_found_and_handing_on_is_none() -> None:
    files = {
        (): parse("mod a;\nmod b;\npub use a::First;\n"),
        ("a",): parse("use crate::b::Second;\npub struct First(Second);\n"),
        ("b",): parse("pub struct Second;\n#[cfg(test)]\nmod tests {\n    use crate::First;\n}\n"),
    }
    assert cycles(needs(files)) == []
    files[("b",)] = parse("use super::{First};\npub struct Second(Box<First>);\n")
    assert cycles(needs(files)) == [{("a",), ("b",)}]
