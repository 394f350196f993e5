"""A small study for tests, written into a test's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.study.engine import Plan, Progress, Silent, execute

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.study.model import Study
    from anabranch.study.worker import Backend

SCENARIO = """\
title = "Two flows"
duration = "20 s"
warmup = "2 s"

[[link]]
name = "bottleneck"
between = ["A", "B"]
rate = "10 Mbit/s"
delay = "5 ms"
queue = { kind = "fifo", limit = "50 packets" }

[[flow]]
name = "F0"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"

[[flow]]
name = "F1"
from = "A"
to = "B"
protocol = "tcp"
congestion = "reno"
"""

STUDY = """\
title = "A study for tests"
about = "Two flows share a bottleneck."
source = "Author 2000"
centre = "mean"
metric = "goodput"
claims = "claims.toml"

[full]
repetitions = 3

[quick]
repetitions = 2
set = { duration = "5 s", warmup = "1 s" }
values = { capacity = [10] }

[parameter.capacity]
label = "Capacity"
unit = "Mbit/s"
values = [10, 20]
set = { "link.bottleneck.rate" = "{capacity} Mbit/s" }

[parameter.congestion]
label = "Congestion control"
values = ["reno", "cubic"]
set = { "flow.F0.congestion" = "{congestion}" }

[experiment.pair]
title = "A pair of flows"
scenario = "scenario.toml"
over = ["capacity", "congestion"]
labels = { F0 = "{congestion}", F1 = "reno" }

[published]
file = "published.csv"
source = "Author 2000"
value_column = "mbps"
relative_to = "capacity"
group_by = "congestion"
flows = { F0 = 0, F1 = 1 }
match = { capacity = "{capacity}" }

[published.experiment]
pair = { cc = "{congestion}" }

[[figure]]
name = "goodput"
title = "Goodput of two flows"
x = "capacity"
columns = "congestion"

[[figure.reference]]
label = "Capacity"
parameter = "capacity"
"""

WINDOWS = """
[[figure]]
name = "windows"
title = "Windows over time"
kind = "windows"
columns = "congestion"
subjects = ["F0"]
window = [2.0, 12.0]
where = { capacity = 10 }
"""

PUBLISHED = """\
capacity,cc,flow,mbps
10,reno,0,5
10,reno,1,4
20,cubic,0,11
20,cubic,1,8
"""

CLAIMS = """\
[[claim]]
id = "share"
text = "At 10 Mbit/s the first flow gets about half"
kind = "value"
of = ["F0"]
where = { capacity = 10 }
expect = 5.2
tolerance = 0.5

[[claim]]
id = "too much"
text = "The first flow gets at least 90 Mbit/s"
kind = "at_least"
of = ["F0"]
expect = 90

[[claim]]
id = "equal"
text = "Both flows get the same"
kind = "ratio"
of = ["F0"]
expect = 1.1
tolerance = 0.2
against = { of = ["F1"] }

[[claim]]
id = "more capacity, more goodput"
text = "At 20 Mbit/s each flow gets more than at 10"
kind = "order"
of = ["F0", "F1"]
where = { capacity = 20 }
against = { where = { capacity = 10 } }
"""


def write(folder: Path, **changes: str) -> Path:
    """Write the study into a folder; `changes` replace whole files by their stem."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"scenario.toml": SCENARIO, "study.toml": STUDY, "published.csv": PUBLISHED, "claims.toml": CLAIMS}
    for name, text in files.items():
        (folder / name).write_text(changes.get(name.split(".")[0], text), encoding="utf-8")
    return folder


def execute_quietly(
    study: Study, results: Path, backend: Backend, *, jobs: int = 1, resume: bool = False, build: str = "b1"
) -> Progress:
    """Run the full form of a study without a display of progress."""
    return execute(Plan(study, study.full, results, backend, build, jobs), Silent(), resume=resume)
