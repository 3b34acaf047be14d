"""What every method must do, whoever adds it: over each file in selfadapt/methods."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selfadapt import methods, signatures
from selfadapt.batch import Batch
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.errors import UnknownName
from selfadapt.methods import Method

N, CLASSES, WIDTH, EPOCHS = 120, 3, 6, 12
ALL = [*methods.names(), *methods.stage_names()]
every_method = pytest.mark.parametrize("name", ALL)


def toy(n: int = N, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Blobs that hardly overlap."""
    centres = np.random.default_rng(9).normal(size=(CLASSES, WIDTH)) * 3
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, n)
    x = centres[y] + rng.normal(size=(n, WIDTH))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def make_net(num_outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, num_outputs))


def build(name: str, labels: Tensor) -> Method:
    torch.manual_seed(0)
    method = methods.build(name, make_net, labels, CLASSES, {})
    method.epochs, method.steps = EPOCHS, 5
    return method


def train(method: Method, x: Tensor, y: Tensor, epochs: range) -> None:
    """The engine's loop in small."""
    feed = Feed(InMemory(x), np.arange(len(x)), seed=1, batch=24)
    optimizer = torch.optim.Adam(method.param_groups(), lr=0.02)
    for epoch in epochs:
        method.train()
        method.start_epoch(epoch, feed)
        for step, rows in enumerate(method.batches(epoch, feed)):
            torch.manual_seed(1000 * epoch + step)
            here = torch.from_numpy(rows)
            optimizer.zero_grad()
            more = tuple(x[here] for _ in range(method.views - 1))
            out = method(Batch(here, x[here], y[here], more), epoch)
            ((out.weights * out.values).sum() / out.weights.sum()).backward()
            optimizer.step()
            method.after_step()
        method.end_epoch(epoch, feed)


@pytest.fixture(scope="module")
def trained() -> dict[str, Method]:
    found = {}
    for name in ALL:
        x, y = toy()
        found[name] = build(name, y)
        train(found[name], x, y, range(EPOCHS))
    return found


def test_there_are_methods_and_each_has_a_card() -> None:
    assert {"erm", "sat"} <= set(methods.names())
    for name, card in methods.names().items():
        assert card.partition("\n")[0].endswith("."), f"{name}: a card begins with one sentence"
        assert "arXiv" in card, f"{name}: a card names its paper"


@every_method
@pytest.mark.parametrize("epoch", [0, EPOCHS // 2, EPOCHS - 1])
def test_loss_is_finite_and_its_gradient_reaches_the_net(name: str, epoch: int) -> None:
    x, y = toy()
    method = build(name, y)
    rows = torch.arange(16)
    method.start_epoch(epoch, Feed(InMemory(x), np.arange(N)))
    more = tuple(x[rows] for _ in range(method.views - 1))
    out = method(Batch(rows, x[rows], y[rows], more), epoch)
    assert out.values.shape == out.weights.shape == (16,)
    assert torch.isfinite(out.values).all()
    assert (out.weights >= 0).all()
    assert not out.weights.requires_grad
    if out.logits is not None:
        assert out.logits.shape == (16, CLASSES)
        assert not out.logits.requires_grad
    (out.weights * out.values).sum().backward()
    gradients = [p.grad for p in method.net.parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in gradients)
    assert all(g is not None and g.abs().sum() > 0 for g in gradients)


@every_method
def test_it_learns_clean_data(name: str, trained: dict[str, Method]) -> None:
    x, y = toy(300, seed=1)
    with torch.no_grad():
        before = build(name, y).eval().predict(x).argmax(dim=1)
        after = trained[name].eval().predict(x).argmax(dim=1)
    assert (after == y).double().mean() > 0.95
    assert (before == y).double().mean() < 0.8, "or there was nothing to learn"


@every_method
def test_predictions_are_distributions(name: str, trained: dict[str, Method]) -> None:
    x, _ = toy(50, seed=2)
    with torch.no_grad():
        probs, doubt = trained[name].eval().predict(x), trained[name].eval().abstain(x)
    assert probs.shape == (50, CLASSES)
    assert probs.dtype == torch.float32
    assert (probs >= 0).all()
    assert probs.sum(dim=1).tolist() == pytest.approx([1] * 50, abs=1e-5)
    assert doubt.shape == (50,)
    assert torch.isfinite(doubt).all()


@every_method
def test_beliefs_have_a_line_for_each_sample(name: str, trained: dict[str, Method]) -> None:
    for method in (build(name, toy()[1]), trained[name]):
        beliefs = method.beliefs()
        if beliefs is None:
            continue
        assert beliefs.shape == (N, CLASSES)
        assert not beliefs.requires_grad
        assert (beliefs >= 0).all()
        assert beliefs.sum(dim=1).tolist() == pytest.approx([1] * N, abs=1e-5)


@every_method
def test_its_state_is_all_there_is_to_it(name: str) -> None:
    """Saved in the middle and loaded into a fresh one, it goes on alike to the bit."""
    x, y = toy()
    whole, first, second = (build(name, y) for _ in range(3))
    for method in (whole, first):
        train(method, x, y, range(EPOCHS // 2))
    second.load_state_dict(first.state_dict())
    for method in (whole, second):
        train(method, x, y, range(EPOCHS // 2, EPOCHS))
    expected = whole.state_dict()
    assert expected.keys() == second.state_dict().keys()
    for key, value in second.state_dict().items():
        assert torch.equal(value, expected[key]), key


@every_method
def test_evaluation_leaves_no_trace(name: str, trained: dict[str, Method]) -> None:
    method = trained[name]
    before = {key: value.clone() for key, value in method.state_dict().items()}
    with torch.no_grad():
        method.eval().predict(toy()[0])
        method.eval().abstain(toy()[0])
        method.beliefs()
    assert all(torch.equal(before[key], value) for key, value in method.state_dict().items())


@every_method
def test_its_knobs_are_typed_and_have_defaults(name: str) -> None:
    cls = methods.resolve(name)
    for knob, parameter in signatures.settings_of(cls).items():
        assert parameter.annotation is not inspect.Parameter.empty, knob
        assert parameter.default is not inspect.Parameter.empty, knob
    defaults = signatures.bind(cls, "method", {})
    assert signatures.bind(cls, "method", defaults) == defaults
    assert isinstance(build(name, toy()[1]), cls)


@every_method
def test_an_unknown_knob_is_an_error(name: str) -> None:
    with pytest.raises(UnknownName, match="setting of method 'no_such_knob'"):
        methods.build(name, make_net, toy()[1], CLASSES, {"no_such_knob": 1})


@every_method
def test_facts_can_be_written_as_json(name: str) -> None:
    import json

    assert json.loads(json.dumps(build(name, toy()[1]).facts())) is not None


def test_an_unknown_method_has_a_nearest_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'sat'"):
        methods.resolve("sta")
    with pytest.raises(UnknownName):
        methods.resolve("method")


class Theirs(Method):
    def loss(self, batch: Batch, epoch: int):
        raise NotImplementedError


def test_somebody_elses_method_is_found_by_module_and_class() -> None:
    assert methods.resolve(f"{__name__}:Theirs") is Theirs


@pytest.mark.parametrize(
    "name", ["no_such_module:Theirs", "json:NoSuchClass", "json:loads", "json:", ":Theirs"]
)
def test_what_is_no_method(name: str) -> None:
    with pytest.raises(ValueError, match="method"):
        methods.resolve(name)
