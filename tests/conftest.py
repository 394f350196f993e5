"""Settings for all tests. Examples have no deadline, so that a busy machine fails no property."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("anabranch", deadline=None)
settings.load_profile("anabranch")
