"""The modules of the package as syntax trees, and the meaning of the names at their top level."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[2] / "python"
PACKAGE = "anabranch"


@dataclass(frozen=True)
class Target:
    """The meaning of a name: a definition of the package, or a module or name of Python's library."""

    kind: Literal["definition", "module", "library"]
    module: str
    name: str = ""

    @property
    def key(self) -> str:
        """Module and name with a dot between them."""
        return f"{self.module}.{self.name}" if self.name else self.module


@dataclass
class Source:
    """One module."""

    name: str
    file: Path
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    """Functions, classes and constants, by name."""
    names: dict[str, Target] = field(default_factory=dict)
    """All names at the top level."""

    @classmethod
    def read(cls, name: str) -> Source:
        """Read a module of the package by its dotted name."""
        file = _file(name)
        if file is None:
            raise FileNotFoundError(name)
        source = cls(name, file)
        for statement in ast.parse(file.read_text(encoding="utf-8"), str(file)).body:
            source._add(statement)
        return source

    def _add(self, statement: ast.stmt) -> None:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                self._define(name, statement)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                self._define(name, statement)
            case ast.Import(names=names):
                for each in names:
                    self.names[each.asname or each.name] = Target("module", each.name)
            case ast.ImportFrom(module=str(module), names=names):
                for each in names:
                    self.names[each.asname or each.name] = _imported(module, each.name)

    def _define(self, name: str, statement: ast.stmt) -> None:
        self.definitions[name] = statement
        self.names[name] = Target("definition", self.name, name)


def _file(name: str) -> Path | None:
    """The file of a module of the package; `None` if there is none."""
    base = ROOT.joinpath(*name.split("."))
    found = [file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()]
    return found[0] if found else None


def _imported(module: str, name: str) -> Target:
    if module.split(".", maxsplit=1)[0] != PACKAGE:
        return Target("library", module, name)
    inner = f"{module}.{name}"
    return Target("module", inner) if _file(inner) else Target("definition", module, name)
