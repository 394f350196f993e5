"""What holds for all tests: a property is not wrong because the machine is busy, so that examples have no deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("anabranch", deadline=None)
settings.load_profile("anabranch")
