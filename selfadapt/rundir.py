"""A run directory: its names, its status, and writes that leave either the old file or the new.

    run.json          what was asked, resolved settings, versions, machine, noise
    log.jsonl         one flat line an epoch
    checkpoints/      the last two states; the newest is the trained model
    labels.parquet    one line a training sample
    signals.safetensors   what was collected while training
    unreadable.csv    the files left out, and why, if there are any
    handed.safetensors    what a later stage of its method needs, if it is one of several
    stages/           the runs that came before, of a method of several stages
    result.json       its presence means: done
    threshold.json    above which score its predictions abstain, once somebody has set that
    evaluation/       what was measured of the trained model afterwards

Everything after training reads these files and nothing else.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from selfadapt.errors import BadInput, DamagedFile, RunInUse

Status = Literal["new", "partial", "done"]
_held: set[Path] = set()  # by this process: to itself a lock of the system would be granted again


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, that is there under its name once it is written to the end: beside,
    synced, renamed. A reader never sees half of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _opened(beside, path) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(path.parent)


def _opened(beside: Path, path: Path) -> BinaryIO:
    try:
        return beside.open("wb")
    except OSError as error:  # of a name that nobody gave
        raise type(error)(error.errno, error.strerror, str(path)) from None


def write_atomically(path: Path, content: bytes) -> None:
    with whole_file(path) as file:
        file.write(content)


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class RunDir:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.run_file = self.path / "run.json"
        self.log_file = self.path / "log.jsonl"
        self.labels_file = self.path / "labels.parquet"
        self.signals_file = self.path / "signals.safetensors"
        self.unreadable_file = self.path / "unreadable.csv"
        self.handed_file = self.path / "handed.safetensors"
        self.threshold_file = self.path / "threshold.json"
        self.evaluation = self.path / "evaluation"
        self.stages = self.path / "stages"
        self.result_file = self.path / "result.json"
        self.checkpoints = self.path / "checkpoints"
        self.lock_file = self.path / ".lock"

    def status(self) -> Status:
        if self.result_file.exists():
            return "done"
        return "partial" if self.run_file.exists() else "new"

    def forget_if_vain(self) -> None:
        """A run that ended before it saved anything leaves nothing to go on with, whatever its
        settings were. Only for who holds the lock."""
        saved = self.checkpoints.is_dir() and any(self.checkpoints.iterdir())
        if self.status() == "partial" and not saved and not self.stages.is_dir():
            self.log_file.unlink(missing_ok=True)
            self.run_file.unlink()

    def create(self) -> list[Path]:
        """Make the directory, or refuse one that holds something else. What was made: the folders
        it lies in come last, the outermost of all."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise BadInput(f"{self.path} is a file; a run needs a directory of its own")
            made = [path for path in (self.path, *self.path.parents) if not path.exists()]
            self._refuse_foreign()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"the run directory {self.path} cannot be made: {error.strerror}; name another one"
            ) from None
        return made

    def _refuse_foreign(self) -> None:
        if self.status() != "new" or not self.path.is_dir():
            return
        ours = {self.stages.name}  # of a run that was stopped before its last stage
        names = {path.name for path in self.path.iterdir() if not path.name.startswith(".")}
        others = sorted(names - ours)
        if others:
            raise BadInput(
                f"{self.path} is not empty and not a run (it holds {others[0]!r}); "
                "name another directory"
            )

    def leave(self, made: list[Path]) -> None:
        """Leave no trace of a run that did not begin. Only for who holds the lock."""
        if self.status() == "new":
            self.lock_file.unlink(missing_ok=True)
            for path in (self.stages, *made) if made else ():
                with suppress(OSError):  # not there, or something is in it by now
                    path.rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the directory for this process. The lock vanishes with the process that has it: it
        is not one that worker processes inherit, which outlive a kill by some seconds."""
        place = self.path.resolve()
        if place in _held:
            raise self._in_use(os.getpid())
        with self.lock_file.open("a+") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                file.seek(0)
                raise self._in_use(file.read().strip() or "unknown") from None
            _held.add(place)
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)
                _held.discard(place)

    def _in_use(self, process: int | str) -> RunInUse:
        return RunInUse(
            f"{self.path} is in use by process {process}; wait for it, or name another directory"
        )

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(path, (text + "\n").encode())

    def read_json(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise BadInput(f"{self.path} is not a run: it has no {path.name}") from None
        except ValueError as error:
            raise DamagedFile(f"{path} is not valid JSON: {error}") from None
        if not isinstance(content, dict):
            raise DamagedFile(f"{path} does not hold a JSON object")
        return content

    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = self.read_json(self.run_file)["settings"]
        return settings

    def log(self) -> list[dict[str, Any]]:
        """The lines of log.jsonl, without one that a crash cut off."""
        if not self.log_file.exists():
            return []
        lines = []
        for text in self.log_file.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except ValueError:
                break
        return lines

    def append_log(self, line: Mapping[str, Any]) -> None:
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def cut_log(self, epoch: int) -> None:
        """Forget the lines of this epoch and later ones: they will be written again."""
        lines = [json.dumps(line) + "\n" for line in self.log() if line["epoch"] < epoch]
        if self.log_file.exists():
            write_atomically(self.log_file, "".join(lines).encode())
