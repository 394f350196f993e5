"""Numbers in sentences."""

from anabranch.quantities import counted


def test_one_thing_has_no_plural() -> None:
    assert [counted(number, "timeout") for number in (0, 1, 2_000)] == ["0 timeouts", "1 timeout", "2,000 timeouts"]
    assert [counted(number, "run was", "runs were") for number in (1, 2)] == ["1 run was", "2 runs were"]
