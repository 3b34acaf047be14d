"""When a run should not answer: parts held out for it, scores, thresholds, and what becomes of
predictions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import torch
from support import blobs
from torch import nn

import selfadapt
from selfadapt import cli, selective, selective_verbs
from selfadapt.data import InMemory
from selfadapt.data.feed import Feed
from selfadapt.data.unlabelled import as_inputs
from selfadapt.engine.machine import this_machine
from selfadapt.engine.scores import DROPOUT, PASSES, scored
from selfadapt.experiment.again import own_test_part
from selfadapt.head import with_features
from selfadapt.methods import build

SETTINGS = {
    "train.epochs": 4,
    "train.batch": 20,
    "train.precision": "fp32",
    "net.width": 16,
    "data.validation": 0.1,
    "data.calibration": 0.2,
}
CLASSES = 3


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "points.npz"
    x, y = blobs(400)
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture
def out(source: Path, tmp_path: Path) -> Path:
    made(source, tmp_path / "run")
    return tmp_path / "run"


def made(source: Any, out: Path, **settings: Any) -> selfadapt.experiment.Run:
    asked = SETTINGS | {"corruption.name": "uniform", "corruption.rate": 0.1} | settings
    return selfadapt.fit(source, out=out, method="sat_selective", net="mlp", settings=asked)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.run([str(argument) for argument in arguments])
    told = capsys.readouterr()
    return code, told.out, told.err


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code, text, error = call(capsys, *arguments)
    assert (code, error) == (0, "")
    return text


def test_the_calibration_part_neither_trains_nor_chooses(out: Path) -> None:
    run = selfadapt.open_run(out)
    about = run.about["data"]
    parts = run.labels["part"].to_pylist()
    assert {name: parts.count(name) for name in ("train", "validation", "calibration")} == {
        "train": about["training"],
        "validation": about["validation"],
        "calibration": about["calibration"],
    }
    assert about["calibration"] == round(0.2 * about["samples"])
    held = [part == "calibration" for part in parts]
    corrected = run.labels["corrected"].to_pylist()
    assert not any(label for label, out in zip(corrected, held, strict=True) if out)


def test_the_next_step_is_told(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = ["--net", "mlp", "--set", "train.epochs=1", "--set", "train.batch=20"]
    for share, told_of in ((0.2, True), (0.0, False)):
        out, asked = tmp_path / f"run {share}", f"data.calibration={share}"
        text = told(capsys, "fit", source, "--out", out, *quick, "--set", asked)
        assert (f"selfadapt threshold '{out}' --coverage 0.9" in text) == told_of


def test_validation_is_the_same_with_and_without_a_calibration_part(
    source: Path, out: Path, tmp_path: Path
) -> None:
    without = made(source, tmp_path / "without", **{"data.calibration": 0.0})
    parts = [run.labels["part"].to_pylist() for run in (selfadapt.open_run(out), without)]
    rows = [[i for i, part in enumerate(of) if part == "validation"] for of in parts]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data.calibration": 1.0}, r"data.calibration must lie in \[0, 1\)"),
        ({"data.validation": 0.5, "data.calibration": 0.5}, "leave nothing to train on"),
    ],
)
def test_shares_that_cannot_be(
    settings: dict[str, Any], said: str, source: Path, tmp_path: Path
) -> None:
    with pytest.raises(selfadapt.errors.BadInput, match=said):
        made(source, tmp_path / "run", **settings)


class Twice(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.9))
        self.head = nn.Linear(12, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.body(x))
        return found


@pytest.mark.parametrize("name", ["erm", "sat_selective", "selectivenet", "dividemix"])
def test_scores_are_those_of_the_outputs(name: str) -> None:
    torch.manual_seed(0)
    x, y = blobs(40)
    method = build(name, Twice, torch.tensor(y), CLASSES, {}).eval()
    feed = Feed(InMemory(torch.tensor(x)), np.arange(40))
    found = scored(method, feed, this_machine("fp32"))
    with torch.no_grad():
        logits, probs = method.logits(torch.tensor(x)), method.predict(torch.tensor(x))
        doubt = method.abstain(torch.tensor(x))
        _, features = with_features(method.net, torch.tensor(x))
    assert logits.shape == (40, CLASSES)
    np.testing.assert_allclose(logits.softmax(dim=1), probs, atol=1e-6)
    np.testing.assert_allclose(found.probs, probs, atol=1e-6)
    top = np.sort(probs.numpy(), axis=1)
    np.testing.assert_allclose(found.scores["softmax"], 1 - top[:, -1], atol=1e-6)
    np.testing.assert_allclose(found.scores["margin"], 1 - top[:, -1] + top[:, -2], atol=1e-6)
    energy = -np.log(np.exp(logits.double().numpy()).sum(axis=1))
    np.testing.assert_allclose(found.scores["energy"], energy, atol=1e-5)
    assert ("abstain" in found.scores) == (name in ("sat_selective", "selectivenet"))
    if "abstain" in found.scores:
        np.testing.assert_allclose(found.scores["abstain"], doubt, atol=1e-6)
    np.testing.assert_allclose(found.scores["dropout"], by_dropout(method, features), rtol=0.35)


@pytest.mark.parametrize(("names", "passes"), [([], 1), (["softmax"], 1), (["energy"], 1)])
def test_predictions_alone_take_one_pass(names: list[str], passes: int) -> None:
    x, y = blobs(40)
    method = build("erm", Twice, torch.tensor(y), CLASSES, {}).eval()
    seen: list[int] = []
    method.net.register_forward_hook(lambda *_: seen.append(1))
    feed = Feed(InMemory(torch.tensor(x)), np.arange(40))
    found = scored(method, feed, this_machine("fp32"), names)
    assert len(seen) == passes
    assert list(found.scores) == names


def by_dropout(method: Any, features: torch.Tensor) -> np.ndarray:
    """With masks of our own: so near only as 100 passes make it."""
    random = np.random.default_rng(0)
    head = method.net.head
    weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    passes = []
    for _ in range(PASSES * 10):
        kept = features.numpy() * (random.random(features.shape) >= DROPOUT) / (1 - DROPOUT)
        z = (kept @ weight.T + bias)[:, :CLASSES]
        e = np.exp(z - z.max(axis=1, keepdims=True))
        passes.append(e / e.sum(axis=1, keepdims=True))
    return np.array(passes).var(axis=0).mean(axis=1)


def test_the_scores_side_by_side(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, _ = blobs(100, seed=5)
    np.savez(tmp_path / "others.npz", x=x + 20)
    text = told(capsys, "evaluate", out, "--selective", "--against", tmp_path / "others.npz")
    assert "samples of the test part: accuracy" in text
    found = json.loads((out / "evaluation" / "selective.json").read_text())
    assert list(found["scores"]) == [
        *("abstain", "softmax", "margin", "entropy", "energy", "dropout")
    ]
    run = selfadapt.open_run(out)
    assert found["accuracy"] == pytest.approx(run.result["accuracy"])
    for line in found["scores"].values():
        assert line["error_at_100"] == pytest.approx(1 - found["accuracy"])
        assert 0 <= line["auroc_other"] <= 1
    assert found["curves"]["softmax"]["coverage"][-1] == 1
    assert set(found["at_threshold"]["class_coverage"]) == set(run.classes)
    for kind in ("md", "png", "svg", "pdf"):
        assert (out / "evaluation" / f"selective.{kind}").stat().st_size > 300
    assert "AURC" in (out / "evaluation" / "selective.md").read_text()
    few = told(capsys, "evaluate", out, "--selective", "--score", "margin", "entropy")
    assert "energy" not in few


def test_a_threshold_for_coverage_and_what_becomes_of_predictions(
    out: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(capsys, "threshold", out, "--coverage", "0.5")
    assert "of the calibration part" in text
    run = selfadapt.open_run(out)
    about = run.threshold
    assert about is not None
    assert about["score"] == "abstain"
    assert 0.5 <= about["coverage"] < 0.55
    x, _ = blobs(400)
    answers = run.predict(x)
    assert set(answers.tolist()) == {-1, *range(CLASSES)}
    np.testing.assert_array_equal(
        answers[answers >= 0], run.predict_proba(x).argmax(axis=1)[answers >= 0]
    )
    text = told(capsys, "predict", out, source, "--to", tmp_path / "p.csv")
    assert f"; {(answers < 0).sum():,} of them empty, for there the model abstains" in text
    table = pa_csv.read_csv(tmp_path / "p.csv")
    empty = [value is None for value in table["prediction"].to_pylist()]
    assert empty == (answers < 0).tolist()
    scores = np.array(table["score_abstain"])
    np.testing.assert_array_equal(scores <= about["threshold"], answers >= 0)


def test_a_threshold_for_risk_is_the_one_that_the_module_finds(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(capsys, "threshold", out, "--risk", "0.45", "--confidence", "0.9")
    assert "With confidence 90.0 % at most" in text
    about = selfadapt.open_run(out).threshold
    assert about is not None
    assert about["bound"] <= 0.45
    assert about["error"] < about["bound"]
    before = (out / "threshold.json").read_bytes()
    text = told(capsys, "threshold", out, "--risk", "0.0001")
    assert "No threshold reaches a risk of 0.01 %" in text
    assert "Nothing was changed" in text
    assert (out / "threshold.json").read_bytes() == before


def test_a_threshold_by_cost_and_score(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "threshold", out, "--cost", "abstain=0.9", "--score", "softmax")
    about = selfadapt.open_run(out).threshold
    assert about is not None
    assert (about["score"], about["by"]) == ("softmax", {"cost": 0.9})
    assert about["coverage"] > 0.9, "hardly any answer is as bad as none"
    assert "Answers nothing" in told(capsys, "threshold", out, "--coverage", "0")
    x, _ = blobs(30)
    assert set(selfadapt.open_run(out).predict(x).tolist()) == {-1}


def test_true_labels_are_asked_for_by_name(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for more, labels in (([], "given"), (["--true-labels"], "true")):
        told(capsys, "threshold", out, "--coverage", "1", *more)
        about = selfadapt.open_run(out).threshold
        assert about is not None
        assert about["labels"] == labels
        assert about["error"] is not None
    noisy = about["error"]
    assert noisy < 0.3


def test_labelled_data_of_ones_own(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = blobs(400)
    np.savez(tmp_path / "more data.npz", x=x[:100], y=y[:100])
    told(capsys, "threshold", out, "--coverage", "0.7", "--data", tmp_path / "more data.npz")
    about = selfadapt.open_run(out).threshold
    assert about is not None
    assert (about["samples"], about["part"]) == (100, "more data")
    np.savez(tmp_path / "strange.npz", x=x[:100], y=y[:100] + 5)
    code, _, error = call(
        capsys, "evaluate", out, "--selective", "--data", tmp_path / "strange.npz"
    )
    assert code == 2
    assert "classes that the run in" in error


@pytest.mark.parametrize("way", [["evaluate", "--selective"], ["threshold", "--coverage", "0.9"]])
def test_settings_that_reading_does_not_know(
    way: list[str], out: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for setting, said in {
        "data.nonsense=1": "nonsense",
        "data.true=true": "data.true",
        "data.test=0.2": "leave it out beside --data",
    }.items():
        code, _, error = call(capsys, way[0], out, *way[1:], "--data", source, "--set", setting)
        assert code == 2
        assert said in error


@pytest.mark.parametrize("way", [["evaluate", "--selective"], ["threshold", "--coverage", "0.9"]])
def test_the_data_it_trained_on_are_not_new_to_it(
    way: list[str], out: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = call(capsys, way[0], out, *way[1:], "--data", source)
    assert code == 2
    assert "is what the run in" in error
    assert "trained on" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["threshold"], "say what the threshold is for"),
        (["threshold", "--coverage", "0.9", "--risk", "0.1"], "got coverage and risk"),
        (["threshold", "--coverage", "90"], "coverage is a share from 0 to 1; got 90"),
        (["threshold", "--risk", "0.1", "--confidence", "1"], "confidence lies between 0 and 1"),
        (["threshold", "--cost", "0.2"], "such as abstain=0.2; got '0.2'"),
        (["threshold", "--coverage", "1", "--score", "softmx"], "Did you mean 'softmax'?"),
        (["threshold", "--coverage", "1", "--confidence", "0.9"], "which --risk makes"),
        (["threshold", "--coverage", "1", "--set", "data.label=y"], "--data names: give that too"),
        (["evaluate", "--selective", "--set", "data.label=y"], "--against names: give one"),
        (["evaluate", "--selective", "--score", "abstain", "bstain"], "Did you mean 'abstain'?"),
        (["evaluate"], "say what to measure: --selective"),
        (["evaluate", "--selective", "--data", "no.csv"], "no.csv"),
        (["evaluate", "--selective", "--set", "train.epochs=3"], "train.epochs"),
    ],
)
def test_what_cannot_be_asked(
    arguments: list[str], said: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = call(capsys, arguments[0], out, *arguments[1:])
    assert code == 2
    assert said in error
    assert not (out / "threshold.json").exists()


@pytest.mark.parametrize(
    "text",
    ["{}", '{"threshold": 1, "score": ["softmax"]}', '{"threshold": true, "score": "margin"}', "["],
)
def test_a_damaged_threshold(
    text: str, out: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "threshold.json").write_text(text)
    code, _, error = call(capsys, "predict", out, source, "--to", out.parent / "p.csv")
    assert code != 0
    assert "threshold.json" in error
    assert "Traceback" not in error


def test_a_run_that_held_nothing_out(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(source, tmp_path / "run", **{"data.calibration": 0.0})
    code, _, error = call(capsys, "threshold", tmp_path / "run", "--coverage", "0.9")
    assert code == 2
    assert "held nothing out" in error
    assert "--set data.calibration=0.1" in error
    code, _, error = call(capsys, "threshold", tmp_path / "nowhere", "--coverage", "0.9")
    assert code == 2
    assert "there is no run" in error


def test_a_run_on_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(blobs(400), tmp_path / "run")
    code, _, error = call(capsys, "threshold", tmp_path / "run", "--coverage", "0.9")
    assert code == 2
    assert "trained on arrays from Python" in error


def test_data_that_has_changed_since(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "points.npz"
    copy.write_bytes(source.read_bytes())
    made(copy, tmp_path / "run")
    x, y = blobs(400)
    np.savez(copy, x=x, y=y[::-1])
    code, _, error = call(capsys, "threshold", tmp_path / "run", "--coverage", "0.9")
    assert code == 2
    assert "has other labels than when the run" in error


def table(path: Path, columns: str, rows: slice = slice(None)) -> Path:
    x, y = blobs(400)
    of = {name: x[rows, number] for number, name in enumerate("abcdef")}
    of["label"] = np.array(["one", "two", "three"])[y[rows]]
    pa_csv.write_csv(pa.table({name: of[name] for name in [*columns, "label"]}), path)
    return path


def test_columns_are_known_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(table(tmp_path / "train.csv", "abcdef"), tmp_path / "run")
    found = []
    for columns in ("abcdef", "fbdcea"):
        part = table(tmp_path / f"{columns}.csv", columns, slice(0, 150))
        told(capsys, "evaluate", tmp_path / "run", "--selective", "--data", part)
        text = (tmp_path / "run" / "evaluation" / "selective.json").read_text()
        found.append(json.loads(text)["accuracy"])
    assert found[0] == found[1] > 0.5
    part = table(tmp_path / "few.csv", "abc")
    code, _, error = call(
        capsys, "threshold", tmp_path / "run", "--coverage", "0.9", "--data", part
    )
    assert code == 2
    assert "lacks columns that the run" in error
    assert "'d', 'e' and 'f'" in error or "'d', 'e', 'f'" in error


def test_samples_of_one_class(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = blobs(400)
    for count in (30, 1):
        here = np.flatnonzero(y == 1)[:count]
        np.savez(tmp_path / "one.npz", x=x[here], y=y[here])
        told(capsys, "evaluate", out, "--selective", "--data", tmp_path / "one.npz")
        told(capsys, "threshold", out, "--coverage", "0.8", "--data", tmp_path / "one.npz")


def test_what_is_said_of_a_sample_depends_on_no_other(out: Path) -> None:
    x, _ = blobs(60)
    run = selfadapt.open_run(out)
    many = run.scored(as_inputs(x, run.shape)).scores
    alone = run.scored(as_inputs(x[40:41], run.shape)).scores
    for name, score in many.items():
        assert alone[name][0] == pytest.approx(score[40], rel=1e-4), name


def test_a_damaged_threshold_can_be_set_anew(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (out / "threshold.json").write_text("{")
    told(capsys, "threshold", out, "--coverage", "0.5")
    assert selfadapt.open_run(out).threshold is not None


def test_the_table_fits_into_a_terminal(
    out: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(capsys, "evaluate", out, "--selective", "--against", source)
    body = [line for line in text.splitlines() if line.startswith(("score ", "softmax "))]
    assert len(body) == 2
    assert all(len(line.rstrip()) <= 80 and "…" not in line for line in body)


def test_a_promise_is_rounded_up() -> None:
    assert selective_verbs.at_most(0.025107) == "2.52 %"
    assert selective_verbs.at_most(0.00001) == "0.01 %"
    assert selective_verbs.at_most(0.25) == "25.00 %"


@pytest.mark.parametrize("name", ["erm", "selectivenet"])
def test_features_of_a_compiled_net(name: str) -> None:
    """Compiled with a back end that only looks: its own code would tell nothing of its inside."""
    x, y = blobs(40)

    def make(num_outputs: int) -> nn.Module:
        net = Twice(num_outputs)
        net.compile(backend="eager")
        return net

    torch.manual_seed(0)
    method = build(name, make, torch.tensor(y), CLASSES, {}).eval()
    with torch.no_grad():
        method.predict(torch.tensor(x))
        outputs, features = with_features(method.net, torch.tensor(x))
    assert features.shape == (40, 12)
    np.testing.assert_allclose(method.net.head(features).detach(), outputs, atol=1e-6)  # type: ignore[operator]


@pytest.mark.slow
def test_the_promise_is_kept_on_real_scores(tmp_path: Path) -> None:
    """200 divisions of handwritten digits, half of which the net has never seen, into samples that
    the threshold is set on and samples that are answered."""
    settings = {"train.epochs": 12, "train.batch": 64, "data.test": 0.6, "net.width": 32}
    noise = {"corruption.name": "uniform", "corruption.rate": 0.4}
    run = selfadapt.fit(
        "digits", out=tmp_path / "run", method="erm", net="mlp", settings=settings | noise
    )
    part = own_test_part(run)
    of = run.scored(part.inputs, ["softmax"], part.rows)
    score, right = of.scores["softmax"], of.probs.argmax(axis=1) == part.labels
    assert 0.05 < 1 - right.mean() < 0.4, "or there is nothing to promise"
    asked, delta = float(1 - right.mean()) / 2, 0.1
    random, broken, answered, near = np.random.default_rng(0), 0, 0, []
    for _ in range(200):
        order = random.permutation(len(score))
        here, there = order[: len(order) // 2], order[len(order) // 2 :]
        found = selective.threshold_for_risk(score[here], right[here], asked, 1 - delta)
        if found.threshold is not None:
            answered += 1
            broken += selective.risk(score[there], right[there], found.threshold) > asked
        level = selective.threshold_for_coverage(score[here], 0.8)
        near.append(selective.coverage(score[there], level))
    assert broken <= delta * 200
    assert answered > 150
    assert np.mean(near) == pytest.approx(0.8, abs=0.02)


def test_three_samples_to_set_a_threshold_on() -> None:
    found = selective.threshold_for_risk([0.1, 0.2, 0.3], [True, True, False], 0.5)
    assert found.threshold is None
    assert math.isfinite(found.best_risk)
    assert selective.threshold_for_coverage([0.1, 0.2, 0.3], 0.5) == 0.2
