"""Speed, as ratios of things measured in turn in one process; medians of several rounds.

    python benchmarks/speed.py [--cifar FOLDER] [--rounds 7]

Without --cifar the pictures are made here (JPEGs of 32×32). Figures go to results/speed.json.
"""

from __future__ import annotations

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from writing import write

import selfadapt
from selfadapt.batch import Batch
from selfadapt.data.images import ImageFiles
from selfadapt.engine.machine import this_machine
from selfadapt.methods import build
from selfadapt.nets import maker

BATCH = 128
SHAPE = (3, 32, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cifar", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    figures: dict[str, Any] = {}
    for name, measure in {
        "help": lambda: help_seconds(asked.rounds),
        "table": lambda: table_moves(),
        "loss_alone": lambda: [loss_alone(c, asked.rounds) for c in (10, 1000)],
        "step": lambda: [step_ratio(c, asked.rounds) for c in (10, 1000)],
        "fit": lambda: fit_against_plain_loop(asked.cifar, asked.rounds),
    }.items():
        figures[name] = measure()
        print(name, figures[name], flush=True)
    write("speed", figures)


def in_turn(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each piece of work, done in turn, every other round backwards; the first round
    warms up and is left out."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(rounds + 1):
        for name, piece in list(work.items())[:: 1 if number % 2 else -1]:
            started = time.perf_counter()
            piece()
            seconds[name].append(time.perf_counter() - started)
    return {name: values[1:] for name, values in seconds.items()}


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the rounds' own ratios: what slows a whole round cancels out."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def help_seconds(rounds: int) -> dict[str, float]:
    program = str(Path(sys.executable).parent / "selfadapt")
    times = in_turn(
        {"help": lambda: subprocess.run([program, "--help"], capture_output=True, check=True)},
        rounds,
    )
    return {"seconds": statistics.median(times["help"])}


def table_moves(samples: int = 1_281_167, classes: int = 1000, batch: int = 256) -> dict[str, Any]:
    """Milliseconds to move 256 rows of a table as large as ImageNet's."""
    labels = torch.randint(0, classes, (samples,))
    found: dict[str, Any] = {"samples": samples, "classes": classes, "rows": batch}
    for name, dtype in {"fp32": torch.float32, "fp16": torch.float16}.items():
        targets = selfadapt.Targets(labels, classes, dtype=dtype)
        probs = torch.rand(batch, classes).softmax(dim=1)
        seconds = []
        for turn in range(200):
            rows = torch.randint(0, samples, (batch,))
            started = time.perf_counter()
            targets.update(rows, probs, epoch=turn)
            seconds.append(time.perf_counter() - started)
        found[f"{name}_ms"] = 1e3 * statistics.median(seconds[20:])
        del targets
    return found


def loss_alone(classes: int, rounds: int) -> dict[str, Any]:
    """Loss and its gradient on given logits, against F.cross_entropy: 200 calls a round."""
    labels = torch.randint(0, classes, (50_000,))
    adaptive = selfadapt.SelfAdaptiveLoss(labels, classes, start=0)
    logits = torch.randn(BATCH, classes, requires_grad=True)
    rows = [torch.randperm(50_000)[:BATCH] for _ in range(200)]
    epoch = iter(range(10**9))

    def ours() -> None:
        now = next(epoch)
        for some in rows:
            adaptive(logits, some, now).backward()

    def plain() -> None:
        for some in rows:
            F.cross_entropy(logits, labels[some]).backward()

    times = in_turn({"ours": ours, "plain": plain}, rounds)
    return {
        "classes": classes,
        "ours_us": 1e6 * statistics.median(times["ours"]) / 200,
        "cross_entropy_us": 1e6 * statistics.median(times["plain"]) / 200,
        "ratio": ratio(times["ours"], times["plain"]),
    }


def step_ratio(classes: int, rounds: int) -> dict[str, Any]:
    """One training step of ResNet-18 by SAT, over one by ERM."""
    machine = this_machine()
    labels = torch.randint(0, classes, (50_000,))
    x = torch.rand(BATCH, *SHAPE).to(memory_format=torch.channels_last)
    rows = torch.randperm(50_000)[:BATCH]
    batch = Batch(rows, x, labels[rows])
    epoch = iter(range(10**9))

    def step_of(name: str, knobs: dict[str, Any]) -> Callable[[], None]:
        torch.manual_seed(0)
        method = build(name, maker("resnet18", SHAPE), labels, classes, knobs)
        method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.SGD(method.parameters(), lr=1e-3, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            with machine.autocast():
                out = method(batch, next(epoch))
            ((out.weights * out.values).sum() / out.weights.sum()).backward()
            optimizer.step()

        return step

    times = in_turn(
        {"sat": step_of("sat", {"start": 0}), "erm": step_of("erm", {})}, max(rounds, 30)
    )
    return {
        "classes": classes,
        "sat_ms": 1e3 * statistics.median(times["sat"]),
        "erm_ms": 1e3 * statistics.median(times["erm"]),
        "ratio": ratio(times["sat"], times["erm"]),
        "precision": machine.precision,
    }


def fit_against_plain_loop(cifar: Path | None, rounds: int, images: int = 1280) -> dict[str, Any]:
    """Training samples per second of `selfadapt fit`, of the net's steps alone on inputs that lie
    ready, and of a loop as most people write it; and the rates of bf16 matrix products, square ones
    and those that the net's convolutions amount to. All in turn."""
    encoded, labels = jpegs(cifar, images)
    data = selfadapt.data.LabelledData(
        "jpegs",
        in_memory(encoded),
        labels,
        tuple(map(str, range(10))),
        [str(i) for i in range(images)],
    )
    rates: dict[str, Callable[[], float]] = {
        "ours": lambda: fit_rate(data),
        "bare": bare_steps(),
        "square": square_products,
        "own": own_products(),
        "plain": PlainLoop(encoded, labels).rate,
    }
    found: dict[str, list[float]] = {name: [] for name in rates}
    for number in range(rounds + 1):
        for name, rate in rates.items():
            value = rate()
            if number:  # the first round warms up
                found[name].append(value)
    flops = training_flops()
    in_flops = [rate * flops for rate in found["ours"]]
    return {
        "images": "CIFAR-10" if cifar else "made here",
        **{f"{name}_per_second": statistics.median(found[name]) for name in ("ours", "plain")},
        "ratio": ratio(found["ours"], found["plain"]),
        "share_of_bare_steps": ratio(found["ours"], found["bare"]),
        "precision": this_machine().precision,
        "training_gflop_per_sample": flops / 1e9,
        "square_product_gflops": statistics.median(found["square"]) / 1e9,
        "share_of_square_products": ratio(in_flops, found["square"]),
        "own_product_gflops": statistics.median(found["own"]) / 1e9,
        "share_of_own_products": ratio(in_flops, found["own"]),
        "batch": BATCH,
        "threads": torch.get_num_threads(),
    }


def jpegs(cifar: Path | None, images: int) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    if cifar is not None:
        table = pq.read_table(cifar / "train.parquet").slice(0, images)
        return [x["bytes"] for x in table["img"].to_pylist()], np.array(table["label"])
    random = np.random.default_rng(0)
    encoded = []
    for _ in range(images):
        coarse = random.integers(0, 255, (8, 8, 3), np.uint8)
        sink = io.BytesIO()
        Image.fromarray(coarse).resize((32, 32)).save(sink, "JPEG", quality=75)
        encoded.append(sink.getvalue())
    return encoded, random.integers(0, 10, images)


def in_memory(encoded: list[bytes]) -> selfadapt.data.InMemory:
    files = ImageFiles(encoded, 32)
    return selfadapt.data.InMemory(files.read(np.arange(len(files)))[0])


def fit_rate(data: Any) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = selfadapt.fit(
            data,
            out=Path(folder) / "run",
            net="resnet18",
            settings={"train.epochs": 1, "train.batch": BATCH, "method.start": 0},
        )
        return float(run.result["samples_per_second"])


class Pictures(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """Decode, crop, flip, scale and normalise one picture at a time, with Pillow."""

    def __init__(self, encoded: list[bytes], labels: Any) -> None:
        self.encoded = encoded
        self.labels = labels

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.open(io.BytesIO(self.encoded[index])).convert("RGB")
        padded = Image.new("RGB", (40, 40))
        padded.paste(image, (4, 4))
        left, top = np.random.randint(0, 9, 2)  # noqa: NPY002 - as most people write it
        image = padded.crop((left, top, left + 32, top + 32))
        if np.random.random() < 0.5:  # noqa: NPY002
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).contiguous().float() / 255
        mean = torch.tensor([0.4914, 0.4822, 0.4465])[:, None, None]
        std = torch.tensor([0.2023, 0.1994, 0.2010])[:, None, None]
        return (x - mean) / std, int(self.labels[index])


class PlainLoop:
    """ERM in fp32 over a DataLoader, contiguous."""

    def __init__(self, encoded: list[bytes], labels: Any) -> None:
        self.loader = torch.utils.data.DataLoader(
            Pictures(encoded, labels), batch_size=BATCH, shuffle=True, num_workers=2
        )
        self.net: nn.Module = maker("resnet18", SHAPE)(10)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4
        )

    def rate(self) -> float:
        started = time.perf_counter()
        seen = 0
        for x, y in self.loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.optimizer.step()
            seen += len(x)
        return seen / (time.perf_counter() - started)


def bare_steps(steps: int = 5) -> Callable[[], float]:
    """Samples per second of plain training steps on one batch that lies ready."""
    machine = this_machine()
    net = maker("resnet18", SHAPE)(10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4)
    x = torch.rand(BATCH, *SHAPE).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (BATCH,))

    def rate() -> float:
        started = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            with machine.autocast():
                logits = net(x)
            F.cross_entropy(logits.float(), y).backward()
            optimizer.step()
        return steps * BATCH / (time.perf_counter() - started)

    return rate


def square_products(side: int = 2048) -> float:
    a, b = (torch.randn(side, side).bfloat16() for _ in range(2))
    return product_rate([(a, b)] * 10)


def own_products() -> Callable[[], float]:
    """Each convolution as the matrix products it amounts to: forward, and the gradients of input
    and weights."""
    sizes: list[tuple[int, int, int]] = []

    def note(layer: nn.Module, _: Any, out: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d)
        taps = layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1]
        sizes.append((BATCH * out.shape[2] * out.shape[3], taps, layer.out_channels))

    net = maker("resnet18", SHAPE)(10)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(note)
    net(torch.rand(2, *SHAPE))

    def rate() -> float:
        return product_rate(pair for size in sizes for pair in _three_products(*size))

    return rate


def _three_products(m: int, k: int, n: int) -> Iterator[tuple[Tensor, Tensor]]:
    x, w, y = (torch.randn(*shape).bfloat16() for shape in ((m, k), (k, n), (m, n)))
    yield from ((x, w), (y, w.T), (x.T, y))


def product_rate(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Multiplications and additions per second; to make the matrices does not count."""
    count, seconds = 0, 0.0
    for a, b in pairs:
        started = time.perf_counter()
        a @ b
        seconds += time.perf_counter() - started
        count += 2 * a.shape[0] * a.shape[1] * b.shape[1]
    return count / seconds


def training_flops() -> float:
    """Multiplications and additions of one training step, for one sample."""
    net = maker("resnet18", SHAPE)(10)
    with FlopCounterMode(display=False) as counter:
        net(torch.rand(4, *SHAPE)).sum().backward()
    return counter.get_total_flops() / 4


if __name__ == "__main__":
    main()
