"""One belief a sample: how it starts, how it moves, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from selfadapt.errors import BadInput
from selfadapt.targets import Targets

LABELS = [0, 1, 2, 1]


def probs(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def test_a_belief_starts_as_the_label_given() -> None:
    targets = Targets(LABELS, 3)
    assert targets.table.tolist() == reference.one_hot(LABELS, 3).tolist()
    assert len(targets) == 4
    assert targets.read(torch.tensor([3, 0])).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_golden_first_update() -> None:
    targets = Targets(reference.Y, 3, momentum=0.9)
    p = torch.tensor(reference.softmax(reference.Z))
    returned = targets.update(torch.arange(2), p, epoch=60)
    golden = [[0.06652410, 0.92447285, 0.00900306], [0.00452785, 0.00452785, 0.99094430]]
    assert returned.numpy() == pytest.approx(np.array(golden), abs=1e-6)
    assert torch.equal(returned, targets.table)


def test_targets_are_returned_in_the_order_of_the_rows() -> None:
    targets = Targets(LABELS, 3, momentum=0.0)
    p = probs([0.1, 0.2, 0.7], [0.3, 0.3, 0.4])
    assert torch.equal(targets.update(torch.tensor([3, 1]), p, 0), p)
    assert torch.equal(targets.table[[3, 1]], p)
    assert targets.table[[0, 2]].tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_row_twice_in_a_batch_moves_once_by_the_mean() -> None:
    targets = Targets(LABELS, 3, momentum=0.5)
    rows = torch.tensor([2, 0, 2])
    p = probs([1, 0, 0], [0, 1, 0], [0, 0.5, 0.5])
    returned = targets.update(rows, p, 0)
    assert targets.table[2].tolist() == [0.25, 0.125, 0.625]
    assert targets.table[0].tolist() == [0.5, 0.5, 0]
    assert torch.equal(returned, targets.table[rows])
    assert targets.table[[1, 3]].tolist() == [[0, 1, 0], [0, 1, 0]]


def test_a_later_visit_in_the_same_epoch_only_reads() -> None:
    targets = Targets(LABELS, 3)
    p = probs([0, 0, 1])
    first = targets.update(torch.tensor([1]), p, 5)
    again = targets.update(torch.tensor([1]), p, 5)
    assert torch.equal(first, again)
    moved = targets.update(torch.tensor([1]), p, 6)
    assert moved[0].tolist() == pytest.approx([0, 0.81, 0.19])


def test_with_repeats_each_visit_moves() -> None:
    targets = Targets(LABELS, 3, repeats=True)
    p = probs([0, 0, 1])
    targets.update(torch.tensor([1]), p, 5)
    moved = targets.update(torch.tensor([1]), p, 5)
    assert moved[0].tolist() == pytest.approx([0, 0.81, 0.19])


def test_a_batch_with_seen_and_unseen_rows() -> None:
    targets = Targets(LABELS, 3)
    targets.update(torch.tensor([0]), probs([0, 0, 1]), 1)
    targets.update(torch.tensor([0, 1]), probs([0, 0, 1], [0, 0, 1]), 1)
    assert targets.table[:2].numpy() == pytest.approx(np.array([[0.9, 0, 0.1], [0, 0.9, 0.1]]))


def test_rows_stay_on_the_simplex_after_a_thousand_updates() -> None:
    torch.manual_seed(0)
    targets = Targets(torch.randint(0, 5, (50,)), 5, momentum=0.7)
    for epoch in range(1000):
        rows = torch.randperm(50)[:20]
        targets.update(rows, torch.softmax(8 * torch.randn(20, 5), dim=1), epoch)
    assert (targets.table >= 0).all()
    assert targets.table.double().sum(dim=1).numpy() == pytest.approx(np.ones(50), abs=1e-6)
    assert (targets.table.amax(dim=1) >= 1 / 5).all()
    assert (targets.table.amax(dim=1) <= 1).all()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(0, 1000),
    st.sampled_from([0.0, 0.5, 0.9, 0.99]),
)
def test_the_order_of_a_batch_does_not_matter(rows: list[int], seed: int, momentum: float) -> None:
    rng = np.random.default_rng(seed)
    p = reference.softmax(rng.normal(size=(len(rows), 4)))
    order = rng.permutation(len(rows))
    one, other = Targets([0] * 10, 4, momentum), Targets([0] * 10, 4, momentum)
    returned = one.update(torch.tensor(rows), torch.tensor(p), 0)
    shuffled = other.update(torch.tensor(rows)[order], torch.tensor(p[order]), 0)
    assert returned[order].numpy() == pytest.approx(shuffled.numpy(), abs=1e-6)
    assert one.table.numpy() == pytest.approx(other.table.numpy(), abs=1e-6)


@pytest.mark.parametrize("repeats", [False, True])
def test_300_random_steps_against_float64(repeats: bool) -> None:
    """Random batches, rows in them twice and again in the same epoch, float32 predictions."""
    rng = np.random.default_rng(1)
    n, classes, momentum = 120, 6, 0.9
    labels = rng.integers(0, classes, n)
    targets = Targets(labels, classes, momentum, repeats=repeats)
    table, moved_in = reference.one_hot(labels, classes), np.full(n, -1)
    for step in range(300):
        epoch, rows = step // 20, rng.integers(0, n, 16)
        z = (rng.normal(size=(16, classes)) * 3).astype(np.float32)
        p = torch.softmax(torch.tensor(z), dim=1)
        returned = targets.update(torch.tensor(rows), p, epoch)
        reference.sat_move(table, moved_in, rows, z, epoch, momentum, repeats)
        assert np.abs(returned.numpy() - table[rows]).max() < 1e-5
    assert np.abs(targets.table.numpy() - table).max() < 1e-5
    assert np.abs(table - reference.one_hot(labels, classes)).max() > 0.5


def test_fp16_beliefs_stay_close_and_reach_one() -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 5, (40,))
    half, full = Targets(labels, 5, dtype=torch.float16), Targets(labels, 5)
    assert half.table.dtype == torch.float16
    for epoch in range(50):
        rows, p = torch.randperm(40)[:10], torch.softmax(4 * torch.randn(10, 5), dim=1)
        returned = half.update(rows, p, epoch)
        full.update(rows, p, epoch)
        assert returned.dtype == torch.float32
        assert torch.equal(returned, half.read(rows))
    assert (half.table.float() - full.table).abs().max() < 5e-3
    for epoch in range(50, 250):
        half.update(torch.tensor([0]), probs([0, 0, 1, 0, 0]), epoch)
    assert half.table[0, 2] > 0.995


def test_bf16_beliefs_are_refused() -> None:
    with pytest.raises(BadInput, match="float32 or float16"):
        Targets(LABELS, 3, dtype=torch.bfloat16)


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16, nn.Module.double])
def test_casting_the_model_does_not_cast_beliefs(cast) -> None:
    """bf16 would stall at 0.984 on its way to 1, without a word."""
    targets = Targets(LABELS, 3)
    targets.update(torch.tensor([0]), probs([0.2, 0.3, 0.5]), 0)
    before = targets.table.clone()
    cast(nn.ModuleList([targets, nn.Linear(2, 2)]))
    assert targets.table.dtype == torch.float32
    assert torch.equal(targets.table, before)
    assert "table" in targets.state_dict()


def test_state_dict_carries_beliefs_and_marks() -> None:
    targets = Targets(LABELS, 3)
    targets.update(torch.tensor([1]), probs([0, 0, 1]), 4)
    other = Targets([0, 0, 0, 0], 3)
    other.load_state_dict(targets.state_dict())
    assert torch.equal(other.table, targets.table)
    again = other.update(torch.tensor([1]), probs([0, 0, 1]), 4)
    assert torch.equal(again[0], targets.table[1])


def test_to_moves_the_beliefs() -> None:
    targets = Targets(LABELS, 3).to("meta")
    assert targets.table.device.type == targets.moved_in.device.type == "meta"


def test_updates_are_outside_the_graph() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    targets = Targets(LABELS, 3)
    returned = targets.update(torch.tensor([0, 1]), logits.softmax(dim=1), 0)
    assert not returned.requires_grad
    assert not targets.table.requires_grad


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        tuple(LABELS),
        np.array(LABELS),
        np.array(LABELS, np.uint8),
        np.array(LABELS, np.float32),
        np.array(LABELS, ">i4"),
        np.array(LABELS[::-1])[::-1],
        torch.tensor(LABELS),
        torch.tensor(LABELS, dtype=torch.int32),
        torch.tensor(LABELS, dtype=torch.float64),
    ],
    ids=lambda labels: f"{type(labels).__name__}-{getattr(labels, 'dtype', '')}",
)
def test_labels_come_in_many_forms(labels) -> None:
    assert Targets(labels, 3).table.argmax(dim=1).tolist() == LABELS


def test_read_only_labels() -> None:
    labels = np.array(LABELS)
    labels.flags.writeable = False
    assert Targets(labels, 3).table.argmax(dim=1).tolist() == LABELS


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], "shape"),
        ([[0, 1]], "shape"),
        (1, "shape"),
        ([0, 3], "label 3 does not fit 3 classes"),
        ([0, -1], "label -1 does not fit"),
        ([0.5, 1], "fractions"),
        ([float("nan"), 1], "NaN"),
        ([float("inf"), 1], "label"),
        (["cat", "dog"], "class indices"),
        ([None, 1], "class indices"),
        ([[0], [1, 2]], "one class index a sample"),
        ([True, False], "class indices"),
        ([1j, 0], "class indices"),
    ],
)
def test_labels_that_cannot_be(labels, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Targets(labels, 3)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5, float("nan")])
def test_momentum_outside(momentum: float) -> None:
    with pytest.raises(BadInput, match=r"momentum must lie in \[0, 1\)"):
        Targets(LABELS, 3, momentum)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_rows_of_any_integer_type(dtype: torch.dtype) -> None:
    targets = Targets(LABELS, 3, momentum=0.0)
    rows, p = torch.tensor([3, 1], dtype=dtype), probs([0.1, 0.2, 0.7], [0.3, 0.3, 0.4])
    assert torch.equal(targets.update(rows, p, 0), p)
    assert torch.equal(targets.read(rows), p)
    assert targets.moved_in.tolist() == [-1, 0, -1, 0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 1], "tensor of integers, got list"),
        (np.array([0, 1]), "tensor of integers, got ndarray"),
        (torch.tensor([0.0, 1.0]), "tensor of integers, got torch.float32"),
        (torch.tensor([True, False]), "tensor of integers, got torch.bool"),
        (torch.tensor([0j, 1j]), "tensor of integers, got torch.complex64"),
        (torch.tensor([0, 1, 2]), "one row for each of the 2 predictions"),
        (torch.tensor([[0, 1]]), "one row for each of the 2 predictions"),
        (torch.tensor(0), "one row for each of the 2 predictions"),
        (torch.tensor([0, 4]), "0 to 3"),
        (torch.tensor([-1, 0]), "0 to 3"),
    ],
)
def test_rows_that_cannot_be(rows, message: str) -> None:
    targets = Targets(LABELS, 3)
    before = targets.table.clone()
    with pytest.raises(BadInput, match=message):
        targets.update(rows, probs([0, 0, 1], [0, 1, 0]), 0)
    assert torch.equal(targets.table, before)


@pytest.mark.parametrize("rows", [[0, 1], torch.tensor([9]), torch.tensor([0.5])])
def test_rows_that_cannot_be_read(rows) -> None:
    with pytest.raises(BadInput, match="rows must"):
        Targets(LABELS, 3).read(rows)


@pytest.mark.parametrize("shape", [(2, 1), (2, 4), (2,), (2, 3, 1)])
def test_predictions_of_another_shape(shape: tuple[int, ...]) -> None:
    targets = Targets(LABELS, 3)
    with pytest.raises(BadInput, match="predictions"):
        targets.update(torch.tensor([0, 1]), torch.full(shape, 0.3), 0)
    assert targets.table.tolist() == reference.one_hot(LABELS, 3).tolist()


def test_an_empty_part_of_a_batch_moves_nothing() -> None:
    targets = Targets(LABELS, 3)
    returned = targets.update(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 3), 0)
    assert returned.shape == (0, 3)
    assert targets.table.tolist() == reference.one_hot(LABELS, 3).tolist()


def test_beliefs_do_not_share_memory_with_the_labels() -> None:
    labels = torch.tensor(LABELS)
    targets = Targets(labels, 3)
    labels.zero_()
    assert targets.table.argmax(dim=1).tolist() == LABELS


def test_a_belief_outlives_a_batch_that_overflowed() -> None:
    targets = Targets([0, 1], 2)
    probs = torch.tensor([[float("nan"), 0.5], [0.25, 0.75]])
    targets.update(torch.tensor([0, 1]), probs, epoch=0)
    assert targets.table.tolist() == [[1.0, 0.0], pytest.approx([0.025, 0.975])]
