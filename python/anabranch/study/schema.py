"""The JSON schema of study.toml, for editors: msgspec makes it of the classes in `anabranch.study.keys`.

A schema cannot express which names of parameters, flows and links exist; the reader checks them.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from functools import cache
from typing import Any

import msgspec

from anabranch.study import keys
from anabranch.study.figure_reader import figure_keys
from anabranch.study.keys import ClaimsKeys, Keys, StudyKeys, extended

Schema = dict[str, Any]


def schema() -> Schema:
    """JSON schema of study.toml."""
    figures: Any = list[figure_keys()]  # type: ignore[misc]
    found = _of(extended(StudyKeys, [("figure", figures, [])]), "Anabranch study")
    # msgspec has no constraint on several keys of a class; `own_metrics` checks this one.
    found["$defs"]["MetricKeys"]["oneOf"] = [{"required": ["expr"]}, {"required": ["function"]}]
    return found


def claims_schema() -> Schema:
    """JSON schema of a file of published statements."""
    return _of(ClaimsKeys, "Published statements of an Anabranch study")


def _of(kind: type[Keys], title: str) -> Schema:
    """Schema of a class as JSON has it, with the texts below its keys, and without the names of classes as titles."""
    found: Schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(kind)))
    texts = _texts()
    for name, part in found["$defs"].items():
        del part["title"]
        for key, value in part["properties"].items():
            if text := texts[name].get(key):
                value.setdefault("description", text)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **found}


@cache
def _texts() -> dict[str, dict[str, str]]:
    """The texts below the keys of each class, also of those that it inherits, by the name of the class."""
    found: dict[str, dict[str, str]] = {}
    for part in ast.parse(inspect.getsource(keys)).body:
        if isinstance(part, ast.ClassDef):
            inherited = (found.get(base.id, {}) for base in part.bases if isinstance(base, ast.Name))
            own = found[part.name] = {key: text for table in inherited for key, text in table.items()}
            for field, text in itertools.pairwise(part.body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    own[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found
