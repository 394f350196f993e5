"""Aims of a search: the number to improve, and the values of settings that an aim allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.advise.choices import COUPLED, Choice
from anabranch.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.advise.choices import Dimension

NAMES = ("goodput", "delay", "fair", "cheap:LINK")


@dataclass(frozen=True)
class Aim:
    """The number that a search improves, and the condition that its choices meet."""

    text: str
    objective: str = "goodput"
    """The aim of `anabranch.explain.objective`: "goodput" or "delay"."""
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """By key of the flow, the values that a choice may have; the search begins with the first."""

    @classmethod
    def parse(cls, text: str, links: Mapping[str, str]) -> Aim:
        """Read an aim.

        Args:
            text: One of `NAMES`, with the name of a link in place of LINK.
            links: The links that can be avoided, by name, with the value of `initial_path` for each.

        Raises:
            InputError: If the aim or its link is unknown, or no other link remains.

        """
        name, colon, link = text.partition(":")
        if text in ("goodput", "delay"):
            return cls(text, text)
        if text == "fair":
            return cls(text, allowed={"congestion": COUPLED})
        if name != "cheap" or not colon:
            raise InputError(f'there is no aim "{text}" ({nearest(text, list(NAMES))})')
        if link not in links:
            raise InputError(f'the aim "{text}" names no link of this host ({nearest(link, list(links))})')
        others = tuple(path for other, path in links.items() if other != link)
        if not others:
            raise InputError(f'the aim "{text}" uses link "{link}" only as a backup and needs a second link; add it')
        return cls(text, allowed={"backup": ((link,),), "initial_path": others})

    def allows(self, choice: Choice, base: Mapping[str, Any]) -> bool:
        """Whether a choice meets the condition; `base` has today's values."""
        values = {**base, **dict(choice.changes)}
        return all(values.get(key) in allowed for key, allowed in self.allowed.items())

    def start(self, base: Mapping[str, Any]) -> Choice:
        """Today's settings with the fewest changes that meet the condition."""
        choice = Choice()
        for key, allowed in self.allowed.items():
            if base.get(key) not in allowed:
                choice = choice.having(key, allowed[0], base)
        return choice

    def restricted(self, dimensions: Sequence[Dimension]) -> list[Dimension]:
        """Settings to search with the allowed values only."""
        return [each.limited_to(self.allowed[each.key]) if each.key in self.allowed else each for each in dimensions]
