"""Writes python/anabranch/_core/document.py, the types of result documents, from the types of the native module.

`make generate` runs this file as a program. A test compares the file with the native module.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from anabranch import _native

FILE = Path(__file__).parent.parent / "python/anabranch/_core/document.py"
_HEAD = '''\
"""Types of result documents: `make generate` writes this file from the types of the simulator's results.

docs/reference/results.md has the meaning of every key.
"""

from typing import Any, NotRequired, TypedDict
'''
_TAIL = '''

SpeltOut = dict[str, Any]
"""A scenario with every default, or a table in it; docs/reference/scenario.md has the keys.

No class describes it, because a table's `kind` or `protocol` decides which keys it has.
"""


class Document(RunResult):
    """The result of a run as decoded from JSON."""

    scenario: NotRequired[SpeltOut]
    """The scenario with every default and every setting."""
'''
_CONTENTS = {
    "MeanMax": "Mean and maximum of a quantity.",
    "Quantiles": "Mean, median, 95 % and 99 % quantile of a quantity.",
    "LatenessResult": "Delay of an emulated network behind the clock when it delivered packets.",
    "HostFacts": "The machine of a run, and its load during the run.",
    "HostResult": "A host of the scenario whose protocols are a kernel's.",
    "MiddleboxResult": "Counts of a middlebox.",
    "RouterResult": "Packets with a loose source route at a router.",
    "RouterRecord": "The record of a router with network control about the way of a path.",
    "WantedPathResult": "A path that the hosts of a flow want to use.",
    "PathResult": "One path of a flow, from the sender's point of view.",
    "StreamResult": "One SCTP stream of a flow.",
    "RunResult": "The result of a run.",
}
"""Docstrings of the classes."""
_NAMES = {"String": "str", "bool": "bool", "f64": "float", "u16": "int", "u32": "int", "u64": "int"}
_OUTER = {"Option": "{} | None", "Vec": "list[{}]", "BTreeMap": "dict[str, {}]"}


def text() -> str:
    """The whole file."""
    parts = [_class(name, keys) for name, keys in reversed(_native.result_parts())]
    return "\n\n".join([_HEAD, *parts]) + _TAIL


def _class(name: str, keys: list[tuple[str, str, bool]]) -> str:
    """The class of one part of a result."""
    known = [(key, _type(rust, may_be_absent)) for key, rust, may_be_absent in keys]
    if any(keyword.iskeyword(key) for key, _ in known):
        rows = "".join(f'        "{key}": {kind},\n' for key, kind in known)
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{rows}    }},\n)\n'
    rows = "".join(f"    {key}: {kind}\n" for key, kind in known)
    content = _CONTENTS.get(name, f"The keys of `{name}` in the native module.")
    return f'class {name}(TypedDict):\n    """{content}"""\n\n{rows}'


def _type(rust: str, may_be_absent: bool) -> str:
    """A type of Python for one of Rust; a value that is left out instead of null has no null."""
    inner = re.fullmatch(r"Option<(.*)>", rust) if may_be_absent else None
    kind = _of(inner[1] if inner else rust)
    return f"NotRequired[{kind}]" if may_be_absent else kind


def _of(rust: str) -> str:
    outer = re.fullmatch(r"(Option|Vec|BTreeMap)<(?:String, )?(.*)>|\[(\w+); \d+\]", rust)
    if outer is None:
        return _NAMES.get(rust, rust)
    return f"list[{_of(outer[3])}]" if outer[3] else _OUTER[outer[1]].format(_of(outer[2]))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
