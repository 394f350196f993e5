"""Settings for all tests. Hypothesis examples have no deadline, because a slow machine must not fail a test."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("anabranch", deadline=None)
settings.load_profile("anabranch")
