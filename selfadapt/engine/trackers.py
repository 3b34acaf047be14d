"""The epoch's line, sent to experiment trackers too; log.jsonl is written in any case."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from selfadapt import distributed, errors
from selfadapt.rundir import RunDir

_PACKAGES = {  # any one of them will do
    "tensorboard": ("tensorboard", "tensorboardX"),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
}


def check(names: list[str] | None) -> None:
    """Before anything is written: are they trackers, and installed?"""
    for name in names or ():
        if name not in _PACKAGES:
            raise errors.unknown("tracker", name, _PACKAGES)
        if not any(find_spec(package) for package in _PACKAGES[name]):
            raise errors.BadInput(
                f"train.trackers names {name!r}, which is not installed: pip install {name}"
            )


class Trackers:
    """Accelerate's trackers by name, on the first process only."""

    def __init__(self, names: list[str] | None, run: RunDir) -> None:
        self.open: list[Any] = []
        check(names)
        if names:
            distributed.on_first(lambda: self.open.extend(_open(name, run) for name in names))

    def log(self, line: dict[str, Any]) -> None:
        values = {name: value for name, value in line.items() if value is not None}
        for tracker in self.open:
            tracker.log(values, step=line["epoch"])

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            distributed.on_first(self._finish)
        else:  # perhaps on this process alone: no time to wait for the others
            self._finish()

    def _finish(self) -> None:
        for tracker in self.open:
            tracker.finish()


def _open(name: str, run: RunDir) -> Any:
    from accelerate import tracking

    kinds = {
        "tensorboard": tracking.TensorBoardTracker,
        "wandb": tracking.WandBTracker,
        "mlflow": tracking.MLflowTracker,
    }
    arguments = {"logging_dir": str(run.path)} if name in ("tensorboard", "mlflow") else {}
    tracker = kinds[name](run.path.name, **arguments)
    tracker.start()
    return tracker
