"""A finished (or unfinished) run, opened from its directory."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from selfadapt import errors
from selfadapt.data.earlier_run import read_labels
from selfadapt.data.feed import Feed
from selfadapt.data.labelled import Inputs
from selfadapt.data.unlabelled import as_inputs
from selfadapt.engine.checkpoint import latest_checkpoint
from selfadapt.engine.evaluate import Tick, probabilities
from selfadapt.engine.machine import this_machine
from selfadapt.engine.plan import Plan
from selfadapt.engine.resume import restore
from selfadapt.engine.scores import Scored, scored
from selfadapt.experiment.assembly import NAMELESS, Experiment, Net, build_method
from selfadapt.methods import Method
from selfadapt.rundir import RunDir
from selfadapt.selective import answered
from selfadapt.selective.scores import SCORES


class Run:
    """What a run directory holds, and the model trained in it."""

    def __init__(self, files: RunDir, net: Net | None = None) -> None:
        self.files = files
        self.path = files.path
        self._net = net
        self._method: Method | None = None

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.files.status()})"

    @property
    def about(self) -> dict[str, Any]:
        """run.json: settings, data, noise, versions."""
        return self.files.read_json(self.files.run_file)

    @property
    def result(self) -> dict[str, Any]:
        self._finished()
        return self.files.read_json(self.files.result_file)

    @property
    def labels(self) -> pa.Table:
        """One line a training sample: given, corrected, belief, weight, suspicion."""
        self._finished()
        return read_labels(self.files.labels_file)

    @property
    def log(self) -> list[dict[str, Any]]:
        return self.files.log()

    @property
    def classes(self) -> list[str]:
        classes: list[str] = self.about["data"]["classes"]
        return classes

    def predict(self, x: Any) -> NDArray[np.int64]:
        """The class of each sample, as its place in `classes`; -1 where it abstains, if the run has
        a threshold."""
        of = self.predictions(as_inputs(x, self.shape))
        best: NDArray[np.int64] = of.probs.argmax(axis=1).astype(np.int64)
        best[~self.answered(of)] = -1
        return best

    def predict_proba(self, x: Any) -> NDArray[np.float32]:
        """[N, C] for an array in one of the forms `load` takes."""
        return self.probabilities(as_inputs(x, self.shape))

    def probabilities(self, inputs: Inputs, tick: Tick | None = None) -> NDArray[np.float32]:
        about = self.about
        machine = this_machine(about["resolved"]["precision"])
        method = self.method().to(machine.device)
        feed = Feed(inputs, np.arange(len(inputs)), device=machine.device)
        return probabilities(method, feed, machine, tick=tick).numpy()

    def scored(
        self,
        inputs: Inputs,
        names: Collection[str] | None = None,
        rows: NDArray[np.int64] | None = None,
        tick: Tick | None = None,
    ) -> Scored:
        """Predictions, and scores of how little the model knows: of these rows, or all."""
        machine = this_machine(self.about["resolved"]["precision"])
        method = self.method().to(machine.device)
        feed = Feed(inputs, np.arange(len(inputs)) if rows is None else rows, device=machine.device)
        return scored(method, feed, machine, names, tick=tick)

    def _needed(self) -> list[str]:
        """The score that the run's predictions abstain by, if they do."""
        threshold = self.threshold
        return [] if threshold is None else [threshold["score"]]

    def predictions(self, inputs: Inputs, tick: Tick | None = None) -> Scored:
        """With the score that decides whether to answer, if there is a threshold."""
        return self.scored(inputs, self._needed(), tick=tick)

    @property
    def threshold(self) -> dict[str, Any] | None:
        """What `selfadapt threshold` has set: score, threshold, and what it was asked for."""
        if not self.files.threshold_file.exists():
            return None
        found = self.files.read_json(self.files.threshold_file)
        level, score = found.get("threshold"), found.get("score")
        if type(level) not in (int, float) or not isinstance(score, str) or score not in SCORES:
            raise errors.DamagedFile(
                f"{self.files.threshold_file} is not what `selfadapt threshold` writes: set it anew"
            )
        return found

    def answered(self, of: Scored) -> NDArray[np.bool_]:
        """Which samples the run's threshold answers; all of them without one."""
        threshold = self.threshold
        if threshold is None:
            return np.ones(len(of.probs), bool)
        return answered(of.scores[threshold["score"]], threshold["threshold"])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.about["data"]["shape"])

    def method(self) -> Method:
        """The trained method, from the newest checkpoint."""
        if self._method is None:
            found = latest_checkpoint(self.files.checkpoints)
            if found is None:
                raise errors.BadInput(f"{self.path} holds no trained model yet")
            self._method = self._rebuilt()
            restore(self._method, found)
        return self._method.eval()

    def _rebuilt(self) -> Method:
        about = self.about
        settings = dict(about["settings"])
        seed = settings.pop("seed")
        net = self._net if self._net is not None else settings["net"]["name"]
        if isinstance(net, str) and net.startswith(NAMELESS):
            raise errors.BadInput(
                f"the net of the run in {self.path} was {net}. Name it again: "
                f"selfadapt.open_run({str(self.path)!r}, net=…)"
            )
        data = about["data"]
        with torch.random.fork_rng(devices=[]):
            return build_method(
                Experiment(None, net, seed, settings, Plan(**settings["train"])),
                np.zeros(data["samples"], np.int64),
                len(data["classes"]),
                self.shape,
                data["statistics"],
            )

    def _finished(self) -> None:
        if self.files.status() != "done":
            raise errors.BadInput(
                f"the run in {self.path} is not finished: give the command that started it again"
            )


def open_run(path: str | os.PathLike[str], net: Net | None = None) -> Run:
    """The run in this directory. `net` is needed only where the run was given a net of your own as
    an object rather than by name."""
    files = RunDir(path)
    if files.status() == "new":
        raise errors.BadInput(f"there is no run in {files.path} (it has no run.json)")
    return Run(files, net)
