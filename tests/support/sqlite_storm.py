"""A process that writes to an SQLite file of its own accord: `python -m support.sqlite_storm FILE SECONDS HOLD PAUSE`.

Each write holds the file's lock for HOLD seconds and is followed by PAUSE seconds of peace; 0 and 0 is flat out.
"""

import sqlite3
import sys
import threading
from contextlib import closing

from qsched.scheduler.clock import SystemClock


def main(file: str, seconds: float, hold: float, pause: float) -> None:
    clock, never = SystemClock(), threading.Event()
    until = clock.monotonic() + seconds
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS storm (id INTEGER PRIMARY KEY, at REAL)")
        while clock.monotonic() < until:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO storm (at) VALUES (?)", (clock.monotonic(),))
            if hold:
                clock.wait(never, hold)
            connection.execute("COMMIT")
            if pause:
                clock.wait(never, pause)


if __name__ == "__main__":
    main(sys.argv[1], *(float(word) for word in sys.argv[2:5]))
