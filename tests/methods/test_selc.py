"""SELC is self-adaptive training without weights: METHODS.md 17."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from common import batch, build, random_case, reduced


def test_golden_value() -> None:
    out = build("selc", start=0)(batch(reference.Z), 0)
    assert reduced(out).item() == pytest.approx(0.73608749, abs=1e-6)


def test_it_is_sat_without_weights() -> None:
    _, y = random_case()
    ours = build("selc", y, 5, start=2, momentum=0.8)
    sat = build("sat", y, 5, start=2, momentum=0.8, reweight=False)
    random = np.random.default_rng(0)
    for epoch in range(8):
        step = batch(random.normal(size=(20, 5)), random.permutation(40)[:20], y)
        mine, theirs = ours(step, epoch), sat(step, epoch)
        assert torch.equal(mine.values, theirs.values)
        assert torch.equal(mine.weights, theirs.weights)
    assert torch.equal(ours.beliefs(), sat.beliefs())
