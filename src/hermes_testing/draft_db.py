"""Small Ascend profiler databases for tests, written row by row as the profiler would."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

Cell = int | float | str | bytes | None


class Draft:
    """Rows of a database to be; `name` puts a text into STRING_IDS."""

    def __init__(self) -> None:
        self.tables: dict[str, list[dict[str, Cell]]] = {}
        self.names: dict[str, int] = {}

    def name(self, text: str) -> int:
        """The id of a text in STRING_IDS."""
        return self.names.setdefault(text, len(self.names))

    def add(self, table: str, **cells: Cell) -> Draft:
        """One row of any table; the first row of a table names its columns."""
        self.tables.setdefault(table, []).append(cells)
        return self

    def kernel(self, key: int, name: str, start: int, end: int, *, task: str = "KERNEL_AIVEC", link: int = 0) -> Draft:
        """A task that COMPUTE_TASK_INFO knows, in ns."""
        self.task(key, start, end, task=task, link=link)
        return self.add("COMPUTE_TASK_INFO", globalTaskId=key, name=self.name(name), blockNum=4)

    def task(
        self,
        key: int,
        start: Cell,
        end: Cell,
        *,
        task: str = "KERNEL_AIVEC",
        link: int = 0,
        number: int = 0,
        context: int = 4294967295,
    ) -> Draft:
        """A row of TASK, in ns; `number` is the task's on its stream, `context` that of a sub-task."""
        return self.add(
            "TASK",
            startNs=start,
            endNs=end,
            deviceId=0,
            connectionId=link,
            globalTaskId=key,
            taskType=self.name(task),
            contextId=context,
            streamId=2,
            taskId=number,
        )

    def call(
        self,
        start: Cell,
        end: Cell,
        name: str,
        *,
        kind: int = 50001,
        link: int | None = None,
        sequence: int = -1,
        forward: int = 0,
    ) -> Draft:
        """A row of PYTORCH_API, in ns; `link` is its id in CONNECTION_IDS."""
        return self.add(
            "PYTORCH_API",
            startNs=str(start),
            endNs=str(end),
            globalTid=(7 << 32) | 9,
            connectionId=link,
            name=self.name(name),
            sequenceNumber=sequence,
            fwdThreadId=forward,
            inputShapes=None,
            callchainId=None,
            type=kind,
        )

    def cann(self, start: int, end: int, name: str, *, kind: int, link: int) -> Draft:
        """A call of CANN, in ns, with its connection id."""
        return self.add(
            "CANN_API",
            startNs=start,
            endNs=end,
            type=kind,
            globalTid=(7 << 32) | 8,
            connectionId=link,
            name=self.name(name),
        )

    def step(self, number: int, start: int, end: int) -> Draft:
        """A row of STEP_TIME, in ns."""
        return self.add("STEP_TIME", id=number, startNs=start, endNs=end)

    def save(self, path: Path, *, mode: str = "delete") -> Path:
        """Write the database in a journal mode of SQLite; gives the path back."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            self.write(connection)
        return path

    def write(self, connection: sqlite3.Connection) -> None:
        """Write the tables through an open connection, names first."""
        rows: list[dict[str, Cell]] = [{"id": number, "value": text} for text, number in self.names.items()]
        tables = ({"STRING_IDS": rows} if rows else {}) | self.tables
        for table, filled in tables.items():
            columns = ", ".join(f'"{column}"' for column in filled[0])
            connection.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns})')
            marks = ", ".join("?" * len(filled[0]))
            connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', [tuple(row.values()) for row in filled])
        connection.commit()
