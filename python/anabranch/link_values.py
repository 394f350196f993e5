"""The values of a link in each direction, in a scenario with all values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._core.document import SpeltOut


def reverse_of(link: Mapping[str, Any]) -> SpeltOut:
    """The values of a link's reverse direction: those of `reverse`, and those of the link for all other keys."""
    return {**link, **link.get("reverse", {})}
