"""What is measured after each epoch."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from selfadapt import distributed
from selfadapt.engine.evaluate import Tick, accuracy, probabilities
from selfadapt.engine.resume import save, stop_if_asked
from selfadapt.engine.schedule import learning_rate
from selfadapt.engine.unreadable import share_unreadable_test
from selfadapt.engine.work import Parts, Progress, Rows, Work
from selfadapt.methods import Method, Validation


def measure(work: Work, progress: Progress) -> dict[str, Any]:
    """The epoch's line for the log. Rates are fractions; what is unknown is null. `seconds` is
    the time spent in training steps since the run began, over all epochs and resumptions."""
    stop_if_asked(work, progress)
    parts, method, machine = work.parts, work.method, work.machine
    started = time.perf_counter()
    line: dict[str, Any] = {
        "epoch": progress.epoch,
        "lr": learning_rate(work.plan, progress.epoch, 0, method.steps),
        "loss": progress.total / progress.weight if progress.weight else 0.0,
        "train_accuracy": _share(progress.right, progress.guessed),
        "train_true_accuracy": None,
        "validation_accuracy": None,
        "validation_true_accuracy": None,
        "test_accuracy": None,
        "labels_changed": None,
        "labels_right": None,
        "seconds": progress.seconds,
        "samples_per_second": progress.samples / max(progress.seconds, 1e-9),
    }
    if parts.true_labels is not None:
        line["train_true_accuracy"] = _share(progress.truly_right, progress.guessed)

    def tick(done: int, total: int) -> None:
        work.show({"epoch": progress.epoch, "what": "evaluating", "done": done, "total": total})
        if work.stop.asked and distributed.processes() == 1:
            save(work, progress)
            raise work.stop.interrupted(work.run)

    if len(parts.validation):
        probs = probabilities(method, parts.train, machine, parts.validation, tick)
        if _tell(method, parts, progress.epoch, probs):
            probs = probabilities(method, parts.train, machine, parts.validation, tick)
        clean = _on_clean_images(work, probs, parts.validation, tick)
        line |= _held_out_figures(parts, probs, clean)
        stop_if_asked(work, progress)
    if parts.test is not None and parts.test_labels is not None:
        probs = probabilities(method, parts.test, machine, None, tick)
        line["test_accuracy"] = accuracy(probs, parts.test_labels)
        share_unreadable_test(work, progress)
    if work.plan.curves:
        probs = probabilities(method, parts.train, machine, None, tick)
        clean = _on_clean_images(work, probs, parts.train.rows, tick)
        line |= fitted_figures(parts, probs, clean)
        stop_if_asked(work, progress)
    line |= belief_figures(method, parts)
    progress.measuring += time.perf_counter() - started
    return line


def _share(right: int, of: int) -> float | None:
    return right / of if of else None


def _tell(method: Method, parts: Parts, epoch: int, probs: Tensor) -> bool:
    """Tell the method how it did on the held-out part, of true labels only if it may look. Whether
    it predicts otherwise from now on."""
    rows, known = parts.validation, ~probs.isnan().any(dim=1)
    found = accuracy(probs, parts.labels[rows])
    if found is None:
        return False
    loss = method.validation_loss(probs[known], torch.from_numpy(parts.labels[rows])[known])
    told = None
    if method.needs_true_labels and parts.true_labels is not None:
        told = accuracy(probs, parts.true_labels[rows])
    return bool(method.validated(epoch, Validation(found, loss.mean().item(), told)))


def _on_clean_images(work: Work, probs: Tensor, rows: Rows, tick: Tick) -> Tensor:
    """What `probs` would be for the samples as they were before their images were corrupted."""
    if work.parts.clean is None:
        return probs
    return probabilities(work.method, work.parts.clean, work.machine, rows, tick)


def _held_out_figures(parts: Parts, probs: Tensor, clean: Tensor) -> dict[str, float | None]:
    """Accuracy on images and labels as given, and on both as they were before any corruption."""
    rows = parts.validation
    true = None if parts.true_labels is None else accuracy(clean, parts.true_labels[rows])
    found = accuracy(probs, parts.labels[rows])
    return {"validation_accuracy": found, "validation_true_accuracy": true}


def fitted_figures(parts: Parts, probs: Tensor, clean: Tensor) -> dict[str, float | None]:
    """Of the training samples, without augmentation: the share whose given label is predicted;
    the share whose true one is, of the images before any corruption; and whose true one is, as
    they are given, among the untouched and the corrupted ones."""
    rows = parts.train.rows
    figures = {"fitted": accuracy(probs, parts.labels[rows])}
    if parts.true_labels is None or parts.corrupted is None:
        return figures
    true, corrupted = parts.true_labels[rows], parts.corrupted[rows]
    figures["fitted_true"] = accuracy(clean, true)
    for name, chosen in (("untouched", ~corrupted), ("corrupted", corrupted)):
        figures[f"{name}_right"] = accuracy(probs[torch.from_numpy(chosen)], true[chosen])
    return figures


@torch.no_grad()
def belief_figures(method: Method, parts: Parts) -> dict[str, float]:
    """The shares of training labels that are believed to be others, and believed rightly."""
    beliefs = method.beliefs()
    if beliefs is None:
        return {}
    believed = beliefs.argmax(dim=1).cpu().numpy()[parts.train.rows]
    figures = {"labels_changed": float((believed != parts.labels[parts.train.rows]).mean())}
    if parts.true_labels is not None:
        figures["labels_right"] = float((believed == parts.true_labels[parts.train.rows]).mean())
    return figures
