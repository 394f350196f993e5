"""All definitions that explanations need, translated.

The rules stay in Python alone. The translation begins with the functions in `ENTRIES` and follows all names that they
use. Python that it does not know ends it with the place. `HOSTS` lists the functions that the page has itself, in
`src/explain/host.ts`: they run scenarios, or call libraries.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from expressions import Expressions, UnsupportedError
from sources import Source, Target
from statements import Statements

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES = (
    "anabranch.explain.explanation.explain",
    "anabranch.explain.explanation.Options",
    "anabranch.coverage.smallest_coverage",
    "anabranch.report.explanation.head",
    "anabranch.report.explanation.summary_of_others",
)
HOSTS = frozenset({
    "anabranch._core.simulator.LARGEST_SEED",
    "anabranch._core.simulator.coupled",
    "anabranch._core.simulator.simulate",
    "anabranch._core.simulator.validate",
    "anabranch._core.worlds.checker",
    "anabranch.errors.InputError",
    "anabranch.errors.nearest",
    "anabranch.explain.trials.Trials",
    "anabranch.extras.require",
    "anabranch.fairness.solver.solve",
    "anabranch.stats.interval_of",
})  # fmt: skip


class Translation:
    """All definitions that were needed, in an order in which each follows those that it needs."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._texts: dict[str, str] = {}
        self._order: list[str] = []

    @property
    def files(self) -> set[Path]:
        """Files of the modules that were read."""
        return {source.file for source in self._sources.values()}

    def text(self, entries: tuple[str, ...]) -> str:
        """The module for the page."""
        exported = []
        for entry in entries:
            module, _, name = entry.rpartition(".")
            exported.append(f"{self._use(Target('definition', module, name))} as {name}")
        body = "".join(self._texts[key] for key in self._order)
        heads = 'import * as $ from "python";\nimport * as host from "host";\n'
        return f"{heads}{body}export {{ {', '.join(exported)} }};\n"

    def _use(self, target: Target) -> str:
        """The name of a definition in the text; translates it with all that it needs at its first use."""
        if target.key in HOSTS:
            return f"host.{target.name}"
        source = self._source(target.module)
        known = source.names.get(target.name)
        if known is not None and known != target:
            return self._use(known)
        name = f"{target.module.rpartition('.')[2].strip('_')}_{target.name}"
        if target.key not in self._texts:
            self._texts[target.key] = ""
            node = source.definitions.get(target.name)
            if node is None:
                raise SystemExit(f"{source.file}: there is no {target.name}")
            try:
                self._texts[target.key] = self._statements(source).definition(name, node)
            except UnsupportedError as error:
                raise SystemExit(f"{source.file}:{error.line}: {error}") from None
            self._order.append(target.key)
        return name

    def _statements(self, source: Source) -> Statements:
        return Statements(Expressions(source.names.get, self._use, self._is_class))

    def _is_class(self, target: Target) -> bool:
        if target.key in HOSTS:
            return target.name[0].isupper()
        return isinstance(self._source(target.module).definitions.get(target.name), ast.ClassDef)

    def _source(self, module: str) -> Source:
        if module not in self._sources:
            self._sources[module] = Source.read(module)
        return self._sources[module]
