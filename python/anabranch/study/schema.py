"""The JSON schema of study.toml, for editors: msgspec makes it of the classes in `anabranch.study.keys`.

A schema cannot express which names of parameters, flows and links exist; the reader checks them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from anabranch.study.figure_reader import figure_keys
from anabranch.study.keys import ClaimsKeys, StudyKeys, extended

Schema = dict[str, Any]


def schema() -> Schema:
    """JSON schema of study.toml."""
    figures: Any = Annotated[list[figure_keys()], Meta(description="Figures.")]  # type: ignore[misc]
    found = _of(extended(StudyKeys, [("figure", figures, [])]))
    # A class has no rule on several keys; `own_metrics` checks this one.
    found["$defs"]["MetricKeys"]["oneOf"] = [{"required": ["expr"]}, {"required": ["function"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Anabranch study", **found}


def claims_schema() -> Schema:
    """JSON schema of a file of published statements."""
    return _of(ClaimsKeys)


def _of(kind: type[Any]) -> Schema:
    """Schema of a class as JSON has it, without the names of classes as titles."""
    found: Schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(kind)))
    for part in found["$defs"].values():
        del part["title"]
    return found
