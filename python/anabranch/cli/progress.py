"""Progress bars: of a study, with the time that is left, and of a run or of a file that is read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import TaskID

    from anabranch.study.engine import Progress as State


class Bar:
    """Shows the progress of a study on stderr: on a terminal a bar, elsewhere a line after each tenth of the runs."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), TextColumn("runs ·"),
            TimeElapsedColumn(), TextColumn("· left {task.fields[left]}"),
            console=self._console, disable=not self._console.is_terminal, expand=True,
        )  # fmt: skip
        self._task: TaskID | None = None
        self._printed = 0

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, progress: State) -> None:
        """Show the number of runs."""
        self._task = self._bar.add_task(self._title, total=progress.total - progress.reused, left="–")

    def advance(self, progress: State) -> None:
        """Show that one more run has ended."""
        if self._task is None:
            return
        left = progress.left_s(self._bar.tasks[self._task].elapsed or 0.0)
        self._bar.update(self._task, advance=1, left="–" if left is None else _clock(left))
        if not self._console.is_terminal:
            self._print_tenths(progress)

    def _print_tenths(self, progress: State) -> None:
        ended = progress.ended
        tenths = 10 * ended // max(1, progress.total - progress.reused)
        if tenths > self._printed and self._task is not None:
            self._printed = tenths
            left = progress.left_s(self._bar.tasks[self._task].elapsed or 0.0)
            shown = "" if not left else f", about {left:.0f} s left"
            self._console.print(
                f"{self._title}: {ended} of {progress.total - progress.reused} runs{shown}", highlight=False
            )


@contextmanager
def of_share(verb: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr that disappears at the end; the function takes the share that is done, 0 to 1."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn(verb), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    task = bar.add_task(verb, total=1.0)
    with bar:
        yield lambda share: bar.update(task, completed=share)


def _clock(seconds: float) -> str:
    """A time as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
