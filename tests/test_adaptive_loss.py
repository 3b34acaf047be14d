"""SelfAdaptiveLoss in somebody's own loop: the paper's numbers, and what a user may do to it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from selfadapt import SelfAdaptiveLoss, with_rows
from selfadapt.errors import BadInput

LABELS = [0, 1, 2, 1]


def golden_loss(**options) -> SelfAdaptiveLoss:
    return SelfAdaptiveLoss(reference.Y, num_classes=3, start=60, momentum=0.9, **options)


def golden_logits() -> torch.Tensor:
    return torch.tensor(reference.Z, requires_grad=True)


def test_golden_first_and_second_update() -> None:
    loss_fn, rows = golden_loss(), torch.arange(2)
    logits = golden_logits()
    loss = loss_fn(logits, rows, 60)
    loss.backward()
    assert loss.shape == ()
    assert loss.item() == pytest.approx(0.71477970, abs=1e-6)
    gradient = [[0.28896968, -0.32807747, 0.03910779], [0.02108242, 0.02108242, -0.04216484]]
    assert logits.grad is not None
    assert logits.grad.numpy() == pytest.approx(np.array(gradient), abs=1e-6)
    table = [[0.06652410, 0.92447285, 0.00900306], [0.00452785, 0.00452785, 0.99094430]]
    assert loss_fn.beliefs().numpy() == pytest.approx(np.array(table), abs=1e-6)
    assert loss_fn(golden_logits(), rows, 61).item() == pytest.approx(0.68288466, abs=1e-6)


def test_golden_weights_and_unweighted_loss() -> None:
    values, weights = golden_loss().values(golden_logits(), torch.arange(2), 60)
    assert weights.tolist() == pytest.approx([0.92447285, 0.99094430], abs=1e-6)
    assert values.mean().item() == pytest.approx(0.73608749, abs=1e-6)
    unweighted = golden_loss(reweight=False)(golden_logits(), torch.arange(2), 60)
    assert unweighted.item() == pytest.approx(0.73608749, abs=1e-6)


def test_golden_warm_up() -> None:
    assert golden_loss()(golden_logits(), torch.arange(2), 59).item() == pytest.approx(
        0.75126446, abs=1e-6
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_warm_up_is_cross_entropy_and_moves_nothing(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 7, (100,))
    loss_fn = SelfAdaptiveLoss(labels, 7, start=60)
    before = copy.deepcopy(loss_fn.state_dict())
    for epoch in (0, 30, 59):
        rows = torch.randperm(100)[:32]
        logits = torch.randn(32, 7, dtype=dtype, requires_grad=True)
        ours = loss_fn(logits, rows, epoch)
        theirs = F.cross_entropy(logits, labels[rows])
        assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    assert all(torch.equal(before[name], now) for name, now in loss_fn.state_dict().items())
    loss_fn(logits, rows, 60)
    assert not torch.equal(before["targets.table"], loss_fn.targets.table)


def test_targets_that_never_moved_are_cross_entropy_to_the_bit() -> None:
    torch.manual_seed(0)
    labels, logits = torch.randint(0, 7, (64,)), 5 * torch.randn(64, 7)
    loss_fn = SelfAdaptiveLoss(labels, 7).eval()
    values, weights = loss_fn.values(logits, torch.arange(64), 100)
    assert torch.equal(values, F.cross_entropy(logits, labels, reduction="none"))
    assert torch.equal(weights, torch.ones(64))


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("reweight", [False, True])
def test_300_random_steps_against_float64(reweight: bool, repeats: bool) -> None:
    """Loss, gradient and table; batches with repeated rows over 12 epochs of which 4 warm up."""
    rng = np.random.default_rng(2)
    n, classes, momentum, start = 100, 5, 0.9, 4
    labels = rng.integers(0, classes, n)
    loss_fn = SelfAdaptiveLoss(
        labels, classes, start=start, momentum=momentum, reweight=reweight, repeats=repeats
    )
    table, moved_in = reference.one_hot(labels, classes), np.full(n, -1)
    for step in range(300):
        epoch, rows = step // 25, rng.integers(0, n, 16)
        z = (rng.normal(size=(16, classes)) * 3).astype(np.float32)
        logits = torch.tensor(z, requires_grad=True)
        loss = loss_fn(logits, torch.tensor(rows), epoch)
        loss.backward()
        if epoch >= start:
            reference.sat_move(table, moved_in, rows, z, epoch, momentum, repeats)
        expected, _, gradient = reference.sat_loss(z, table[rows], reweight)
        assert loss.item() == pytest.approx(expected, abs=1e-5)
        assert logits.grad is not None
        assert np.abs(logits.grad.numpy() - gradient).max() < 1e-5
        assert np.abs(loss_fn.beliefs().numpy() - table).max() < 1e-5


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 10), st.integers(0, 1000))
def test_weights_lie_between_an_equal_belief_and_certainty(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss_fn = SelfAdaptiveLoss(rng.integers(0, classes, 30), classes, start=0, momentum=0.5)
    for epoch in range(10):
        logits = torch.tensor(rng.normal(size=(8, classes)) * 3, dtype=torch.float32)
        rows = torch.tensor(rng.permutation(30)[:8])
        values, weights = loss_fn.values(logits, rows, epoch)
        assert (weights >= 1 / classes - 1e-6).all()
        assert (weights <= 1 + 1e-6).all()
        assert not weights.requires_grad
        assert (values >= 0).all()


def test_the_order_of_batches_does_not_matter_at_rate_zero() -> None:
    """With a net that stands still and has no batch norm, an epoch in any order is the same."""
    torch.manual_seed(0)
    x, net = torch.randn(60, 4), nn.Linear(4, 3)
    labels = torch.randint(0, 3, (60,))
    tables = []
    for seed in (0, 1):
        loss_fn = SelfAdaptiveLoss(labels, 3, start=0)
        for epoch in range(3):
            order = torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(60))
            for rows in order.split(16):
                loss_fn(net(x[rows]), rows, epoch)
        tables.append(loss_fn.beliefs())
    assert torch.allclose(*tables, atol=1e-6)
    assert not torch.allclose(tables[0], torch.eye(3)[labels], atol=0.05)


def test_a_later_visit_in_an_epoch_reads_only() -> None:
    loss_fn, rows = golden_loss(), torch.arange(2)
    first = loss_fn(golden_logits(), rows, 60)
    table = loss_fn.beliefs().clone()
    assert loss_fn(golden_logits(), rows, 60).item() == first.item()
    assert torch.equal(loss_fn.beliefs(), table)
    repeating = golden_loss(repeats=True)
    repeating(golden_logits(), rows, 60)
    assert repeating(golden_logits(), rows, 60).item() == pytest.approx(0.68288466, abs=1e-6)


def test_evaluation_mode_moves_nothing() -> None:
    loss_fn, rows = golden_loss(), torch.arange(2)
    loss_fn(golden_logits(), rows, 60)
    before = copy.deepcopy(loss_fn.state_dict())
    loss_fn.eval()
    in_eval = loss_fn(golden_logits(), rows, 61)
    assert all(torch.equal(before[name], now) for name, now in loss_fn.state_dict().items())
    assert in_eval.item() == pytest.approx(0.71477970, abs=1e-6)
    loss_fn.train()
    assert loss_fn(golden_logits(), rows, 61).item() == pytest.approx(0.68288466, abs=1e-6)


def test_state_dict_round_trip() -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 4, (20,))
    one, other = (SelfAdaptiveLoss(labels, 4, start=0) for _ in range(2))
    logits, rows = torch.randn(10, 4), torch.arange(10)
    one(logits, rows, 0)
    other.load_state_dict(one.state_dict())
    for epoch, part in [(0, rows), (1, rows), (1, torch.arange(10, 20))]:
        assert one(logits, part, epoch).item() == other(logits, part, epoch).item()
    assert torch.equal(one.beliefs(), other.beliefs())


def test_loading_a_state_leaves_the_users_labels_alone() -> None:
    labels = np.array(LABELS)
    loss_fn = SelfAdaptiveLoss(labels, 3)
    loss_fn.load_state_dict(SelfAdaptiveLoss([0, 0, 0, 0], 3).state_dict())
    assert labels.tolist() == LABELS
    mine = torch.tensor(LABELS)
    loss_fn = SelfAdaptiveLoss(mine, 3)
    mine.zero_()
    assert loss_fn.labels.tolist() == LABELS


def test_it_is_an_ordinary_module() -> None:
    loss_fn = pickle.loads(pickle.dumps(golden_loss()))
    assert loss_fn(golden_logits(), torch.arange(2), 60).item() == pytest.approx(0.7147797)
    assert list(loss_fn.parameters()) == []
    assert set(loss_fn.state_dict()) == {"labels", "targets.table", "targets.moved_in"}
    moved = loss_fn.to("meta")
    assert {buffer.device.type for buffer in moved.buffers()} == {"meta"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    labels = torch.randint(0, 10, (64,))
    logits = (5 * torch.randn(64, 10)).to(dtype).requires_grad_()
    for epoch in (0, 1):
        half, full = (SelfAdaptiveLoss(labels, 10, start=1) for _ in range(2))
        ours = half(logits, torch.arange(64), epoch)
        theirs = full(logits.float(), torch.arange(64), epoch)
        assert ours.dtype == torch.float32
        assert ours.item() == theirs.item()
        assert torch.equal(half.beliefs(), full.beliefs())
    ours.backward()
    assert logits.grad is not None
    assert logits.grad.dtype == dtype


def test_under_autocast_everything_stays_fp32() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(8, 3), torch.randn(4, 8)
    inside, outside = (SelfAdaptiveLoss(LABELS, 3, start=0) for _ in range(2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
        loss = inside(logits, torch.arange(4), 0)
    assert logits.dtype == torch.bfloat16
    assert loss.dtype == torch.float32
    assert loss.item() == outside(logits.float(), torch.arange(4), 0).item()


@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.bfloat16])
def test_casting_it_with_the_model_keeps_its_beliefs_exact(cast) -> None:
    loss_fn = cast(golden_loss())
    assert loss_fn(golden_logits(), torch.arange(2), 60).item() == pytest.approx(0.71477970)


def test_fp16_beliefs() -> None:
    loss_fn = golden_loss(dtype=torch.float16)
    loss = loss_fn(golden_logits(), torch.arange(2), 60)
    assert loss_fn.targets.table.dtype == torch.float16
    assert loss_fn.beliefs().dtype == torch.float32
    assert loss.item() == pytest.approx(0.71477970, abs=1e-3)


@pytest.mark.parametrize(
    "labels",
    [LABELS, np.array(LABELS), np.array(LABELS, np.uint8), torch.tensor(LABELS)],
    ids=["list", "array", "uint8", "tensor"],
)
def test_labels_come_in_many_forms(labels) -> None:
    loss_fn = SelfAdaptiveLoss(labels, 3, start=1)
    logits = torch.randn(4, 3)
    expected = F.cross_entropy(logits, torch.tensor(LABELS))
    assert loss_fn(logits, torch.arange(4), 0).item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize(
    "labels", [[], [[1]], [0, 3], [-1, 0], [0.5, 1], [float("nan"), 1], ["cat", "dog"]]
)
def test_labels_that_cannot_be(labels) -> None:
    with pytest.raises(BadInput, match="label"):
        SelfAdaptiveLoss(labels, 3)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(BadInput, match="momentum"):
        SelfAdaptiveLoss(LABELS, 3, momentum=1.0)
    for start in (-1, 0.3, float("nan"), float("inf")):
        with pytest.raises(BadInput, match="start is the number of ordinary epochs"):
            SelfAdaptiveLoss(LABELS, 3, start=start)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="float32 or float16"):
        SelfAdaptiveLoss(LABELS, 3, dtype=torch.bfloat16)


@pytest.mark.parametrize("shape", [(2, 4), (2, 2), (2,), (2, 3, 1)])
def test_logits_of_a_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"logits must be \[B, 3\]"):
        SelfAdaptiveLoss(LABELS, 3)(torch.zeros(shape), torch.arange(2), 0)


@pytest.mark.parametrize("epoch", [0, 5])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        [0, 1],
        torch.tensor([0.0, 1.0]),
        torch.tensor([True, True]),
        torch.tensor([0]),
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 4]),
        torch.tensor([-1, 0]),
    ],
    ids=["list", "float", "bool", "short", "long", "beyond", "negative"],
)
def test_rows_that_cannot_be(rows, training: bool, epoch: int) -> None:
    loss_fn = SelfAdaptiveLoss(LABELS, 3, start=3).train(training)
    before = loss_fn.beliefs().clone()
    with pytest.raises(BadInput, match="rows must"):
        loss_fn(torch.zeros(2, 3), rows, epoch)
    assert torch.equal(loss_fn.beliefs(), before)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("epoch", [0, 5])
def test_rows_of_any_integer_type(dtype: torch.dtype, epoch: int) -> None:
    logits, rows = torch.randn(2, 3), torch.tensor([3, 0])
    ours, theirs = (SelfAdaptiveLoss(LABELS, 3, start=3) for _ in range(2))
    assert ours(logits, rows.to(dtype), epoch).item() == theirs(logits, rows, epoch).item()


def blobs(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, count)
    centres = np.random.default_rng(0).normal(size=(4, 16)) * 0.9
    x = centres[y] + rng.normal(size=(count, 16))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def test_it_learns_through_noise_better_than_cross_entropy() -> None:
    """The five-line loop, on blobs of which 40 % have a label drawn from all classes."""
    x, true = blobs(400, 1)
    test_x, test_y = blobs(1000, 2)
    rng = np.random.default_rng(3)
    given_labels = true.clone()
    wrong = rng.permutation(400)[:160]
    given_labels[wrong] = torch.tensor(rng.integers(0, 4, 160))
    data = with_rows(TensorDataset(x, given_labels))
    accuracy = {}
    for start in (5, 1000):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loader = DataLoader(data, batch_size=100, shuffle=True)
        loss_fn = SelfAdaptiveLoss(given_labels, num_classes=4, start=start, momentum=0.9)
        for epoch in range(80):
            for rows, inputs, _ in loader:
                optimizer.zero_grad()
                loss_fn(model(inputs), rows, epoch).backward()
                optimizer.step()
        accuracy[start] = (model(test_x).argmax(dim=1) == test_y).double().mean().item()
        if start == 5:
            corrected = (loss_fn.beliefs().argmax(dim=1) == true).double().mean().item()
    before = (given_labels == true).double().mean().item()
    assert accuracy[5] > accuracy[1000] + 0.1
    assert corrected > before + 0.1


def test_with_rows_survives_shuffling_and_subsets() -> None:
    x = torch.arange(50.0)[:, None]
    data = with_rows(TensorDataset(x, torch.arange(50) % 3))
    assert len(data) == 50  # type: ignore[arg-type]
    part = Subset(data, list(range(1, 50, 2)))
    torch.manual_seed(0)
    seen = []
    for rows, inputs, labels in DataLoader(part, batch_size=8, shuffle=True):
        assert rows.dtype == torch.int64
        assert torch.equal(inputs[:, 0], rows.float())
        assert torch.equal(labels, rows % 3)
        seen += rows.tolist()
    assert sorted(seen) == list(range(1, 50, 2))
    assert seen != sorted(seen)


def test_with_rows_takes_lists_and_counts_from_the_end() -> None:
    data = with_rows([("a", 0), ("b", 1), ["c", 2]])
    assert list(data) == [(0, "a", 0), (1, "b", 1), (2, "c", 2)]
    assert data[-1] == (2, "c", 2)
    with pytest.raises(IndexError):
        data[3]


def test_with_rows_refuses_what_has_no_rows() -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(0, 0)])

    with pytest.raises(BadInput, match="map-style"):
        with_rows(Stream())
    with pytest.raises(BadInput, match="map-style"):
        with_rows(iter([(0, 0)]))


@pytest.mark.parametrize("sample", [{"image": 1, "label": 2}, (1, 2, 3), "ab", 5])
def test_with_rows_refuses_samples_that_are_not_pairs(sample) -> None:
    """A dict of two columns would otherwise be taken apart into the columns' names."""
    with pytest.raises(BadInput, match=r"\(x, y\)"):
        with_rows([sample])[0]


def test_beliefs_are_a_copy() -> None:
    for dtype in (torch.float32, torch.float16):
        loss_fn = SelfAdaptiveLoss([0, 1, 2], num_classes=3, start=0, dtype=dtype)
        before = loss_fn.beliefs()
        kept = before.clone()
        loss_fn(torch.randn(3, 3), torch.arange(3), 0)
        assert torch.equal(before, kept)
        assert not torch.equal(before, loss_fn.beliefs())


@pytest.mark.parametrize("epoch", [0.5, -1, "3", None])
def test_an_epoch_is_a_whole_number(epoch: Any) -> None:
    loss_fn = SelfAdaptiveLoss([0, 1, 2], num_classes=3, start=0)
    with pytest.raises(BadInput, match="epoch must be a whole number, counted from 0"):
        loss_fn(torch.randn(3, 3), torch.arange(3), epoch)
    loss_fn(torch.randn(3, 3), torch.arange(3), torch.tensor(3))
