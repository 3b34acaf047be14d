"""What other libraries say of the same scores, kept for a test to compare ours with.

    pip install torchmetrics torch-uncertainty mapie     (in an environment of its own)
    python benchmarks/agreement.py

Needs nothing of this project's. Values go to results/selective_agreement.json;
tests/test_selective.py computes them by selfadapt.selective.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

TO = Path(__file__).resolve().parent.parent / "results" / "selective_agreement.json"
SAMPLES, CLASSES, SEED = 2000, 5, 0


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and classes that they are somewhat right about."""
    random = np.random.default_rng(SEED)
    logits = random.normal(size=(SAMPLES, CLASSES)) * 2
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    flat = 0.6 * probs + 0.4 / CLASSES
    labels = (flat.cumsum(axis=1) < random.random(SAMPLES)[:, None]).sum(axis=1)
    return probs, labels


def main() -> None:
    import torch
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin
    from torch_uncertainty.metrics.classification import AUGRC, AURC
    from torchmetrics.functional.classification import multiclass_calibration_error

    class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """A model whose inputs are its outputs."""

        classes_ = np.arange(CLASSES)
        is_fitted_ = True

        def fit(self, x: np.ndarray, y: np.ndarray) -> Given:
            return self

        def predict_proba(self, x: np.ndarray) -> np.ndarray:
            return x

        def predict(self, x: np.ndarray) -> np.ndarray:
            return x.argmax(axis=1)

    probs, labels = samples()
    of, truth = torch.tensor(probs), torch.tensor(labels)
    found = {}
    for name, metric in {"aurc": AURC(), "augrc": AUGRC()}.items():
        metric.update(of, truth)
        found[name] = float(metric.compute())
    ece = multiclass_calibration_error(of, truth, num_classes=CLASSES, n_bins=15)
    found["calibration_error"] = float(ece)
    half = SAMPLES // 2
    mapie = SplitConformalClassifier(Given(), confidence_level=0.9, prefit=True)
    mapie.conformalize(probs[:half], labels[:half])
    sets = mapie.predict_set(probs[half:])[1][:, :, 0]
    found["conformal_coverage"] = float(sets[np.arange(half), labels[half:]].mean())
    found["conformal_set_size"] = float(sets.sum(axis=1).mean())
    names = ("torch-uncertainty", "torchmetrics", "mapie")
    kept = {"values": found, "versions": {name: version(name) for name in names}}
    TO.write_text(json.dumps(kept, indent=1) + "\n")
    print(TO.read_text())


if __name__ == "__main__":
    main()
