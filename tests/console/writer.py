"""A coordinator as the console sees it: a process that appends rounds to an event file until it is killed.

    python writer.py FOLDER FIRST LAST

It logs where it goes on from, then rounds FIRST to LAST and, after the last of 12, that the study is finished.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from wardround.studies.run_folder import RunFolder

PAUSE = 0.05  # seconds a round


def main(folder: Path, first: int, last: int) -> None:
    run = RunFolder(folder)
    sites = ("harbour", "hillside", "lakeside")
    run.log("resumed" if first > 1 else "started", {"round": first - 1, "sites": 3})
    for number in range(first, last + 1):
        time.sleep(PAUSE)
        costs = {"give": {site: [2_000, 1_000, 0.5, 0.4] for site in sites}}
        figures = {"round": number, "loss": 8 / number, "answered": 3, "absent": [], "down": 6_000, "up": 3_000}
        run.log("round", figures | {"seconds": 1.0, "exchanges": costs})
    if last == 12:
        run.log("finished", {"rounds": 12, "best_round": 12, "f1": {}})
        return
    with (folder / "events.jsonl").open("ab") as stream:
        stream.write(b'{"time": 1.0, "event": "round", "rou')  # the line in which the plug is pulled
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
