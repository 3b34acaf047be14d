"""docs/figures.md and the README's picture, made from the files under results/.

python benchmarks/pages.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

import matplotlib as mpl
from writing import ROOT

mpl.use("svg")
from matplotlib import pyplot as plt

RESULTS = ROOT / "results"
WORDS = {"erm": "ordinary training", "sat": "self-adaptive training"}
COLOURS = {"erm": "#c2410c", "sat": "#1d4ed8"}


def main() -> None:
    (ROOT / "docs" / "figures.md").write_text(page())
    picture()


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def page() -> str:
    parts = [
        "# Figures\n\nEvery figure here is read from a file under `results/`, which says the\n"
        "command, commit, seeds and machine that made it. This page is written by\n"
        "`python benchmarks/pages.py`.",
        *(section() for name, section in SECTIONS.items() if (RESULTS / f"{name}.json").exists()),
    ]
    return "\n\n".join(parts) + "\n"


def made_by(content: dict[str, Any]) -> str:
    machine = content["machine"]
    return (
        f"`{content['command']}`, commit {content['commit']}, {content['date']}, "
        f"{machine.get('accelerator') or machine['processor']}, {machine['threads']} threads, "
        f"PyTorch {machine['torch']}."
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def share(values: Sequence[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread} %"


def demo_section() -> str:
    content, choice = read("demo"), read("demo_settings")
    runs = content["figures"]["runs"]
    rows = []
    for method, word in WORDS.items():
        mine = [run for run in runs if run["method"] == method]
        best = [max(run["curves"]["test_accuracy"]) for run in mine]
        rows.append(
            [
                word,
                share([run["accuracy"] for run in mine]),
                share(best),
                f"{100 * (1 - mean(r['error_rate'] for r in mine)):.1f} % → "
                + share([run["labels_right"] for run in mine]),
                f"{mean(run['seconds'] for run in mine):.1f}",
            ]
        )
    header = (
        "digits, 40 % uniform noise",
        "test accuracy, last epoch",
        "(best on test: not to be had)",
        "training labels right",
        "seconds",
    )
    chosen = choice["figures"]["chosen"]
    grid = [
        [str(r["start"]), str(r["momentum"]), share(r["noisy_validation_accuracy"])]
        for r in choice["figures"]["grid"]
    ]
    return "\n\n".join(
        [
            "## The demo",
            table(header, rows),
            f"Seeds {sorted({run['seed'] for run in runs})}, mean ± standard deviation. "
            f"{made_by(content)}",
            "The training labels right after ordinary training are its final predictions, which\n"
            "is what it has in place of beliefs. The column of best test accuracies chooses on\n"
            "test data, and only shows what early stopping could at most have reached.",
            f"`start` = {chosen['start']} and `momentum` = {chosen['momentum']} were chosen by\n"
            "accuracy on a held-out quarter of the training set with its wrong labels, over\n"
            f"seeds {choice['figures']['seeds']}, which the demo does not show:",
            table(("start", "momentum", "accuracy on noisy validation labels"), grid),
            made_by(choice),
        ]
    )


def where_we_lose(runs: Sequence[dict[str, Any]]) -> str:
    """In words, from the figures: whether corrected labels are better than those given."""
    worse = [
        protocol
        for protocol in ("plain", "augmented")
        if mean(
            run["labels_right"] + run["error_rate"] - 1
            for run in runs
            if (run["protocol"], run["method"]) == (protocol, "sat")
        )
        < 0
    ]
    if "plain" not in worse:
        return ""
    return (
        "Where we lose: without augmentation self-adaptive training gives the better classifier,\n"
        "but its corrected labels are *worse* than the ones given: beliefs follow a model that is\n"
        "right on little more than half of the images. Do not take corrected labels from a run\n"
        "whose accuracy is below the share of labels that you think are right."
    )


def cifar_section() -> str:
    content, choice = read("cifar10_noise"), read("cifar10_settings")
    grid = [
        [str(r["start"]), share(r["noisy_validation_accuracy"])] for r in choice["figures"]["grid"]
    ]
    rows = []
    for protocol in ("plain", "augmented"):
        for method, word in WORDS.items():
            mine = [
                run
                for run in content["figures"]["runs"]
                if (run["protocol"], run["method"]) == (protocol, method)
            ]
            if mine:
                rows.append(
                    [
                        "crop and flip" if protocol == "augmented" else "no augmentation",
                        word,
                        share([run["accuracy"] for run in mine]),
                        share([run["labels_right"] for run in mine]),
                        share([run["train_accuracy"] for run in mine]),
                        ", ".join(str(run["seed"]) for run in mine),
                    ]
                )
    header = (
        "10,000 CIFAR-10 images",
        "",
        "test accuracy, last epoch",
        "training labels right",
        "wrong labels and all: fitted",
        "seeds",
    )
    before = 100 * (1 - mean(run["error_rate"] for run in content["figures"]["runs"]))
    return "\n\n".join(
        [
            "## CIFAR-10, 40 % uniform noise, 10,000 images",
            table(header, rows),
            f"{before:.1f} % of the labels were right before. The images went through JPEG, so\n"
            "accuracies lie a little below published ones. Nothing was chosen on test data:\n"
            "without augmentation start and momentum are earlier and faster (8 and 0.7), as in\n"
            f"the paper. {made_by(content)}",
            "With augmentation `start` was chosen among a few on noisy validation labels of\n"
            f"seeds {choice['figures']['seeds']}, which are not reported:",
            table(("start", "accuracy on noisy validation labels"), grid),
            made_by(choice),
            where_we_lose(content["figures"]["runs"]),
        ]
    )


def speed_section() -> str:
    content = read("speed")
    figures = content["figures"]
    moves, fit = figures["table"], figures["fit"]
    rows = [
        [
            f"a SAT step over an ERM step, ResNet-18, batch 128, {step['classes']:,} classes",
            f"{step['ratio']:.3f}",
        ]
        for step in figures["step"]
    ]
    rows += [
        [
            f"the loss alone with its gradient, {loss['classes']:,} classes",
            f"{loss['ours_us']:.0f} µs against {loss['cross_entropy_us']:.0f} µs for "
            f"`F.cross_entropy` ({loss['ratio']:.1f}×)",
        ]
        for loss in figures["loss_alone"]
    ]
    rows += [
        [
            f"moving {moves['rows']} rows of a table of {moves['samples']:,} × "
            f"{moves['classes']:,}",
            f"{moves['fp32_ms']:.2f} ms in fp32, {moves['fp16_ms']:.2f} ms in fp16",
        ],
        [
            f"`selfadapt fit`, ResNet-18 on CIFAR-10 JPEGs, batch 128, {fit['precision']}, "
            "against a plain PyTorch loop",
            f"{fit['ours_per_second']:.0f} against {fit['plain_per_second']:.0f} images a "
            f"second: {fit['ratio']:.2f}×",
        ],
        [
            "the same, over the net's training steps alone on a batch that lies ready",
            f"{100 * fit['share_of_bare_steps']:.0f} %",
        ],
        [
            "the same, as a share of the machine's rate of bf16 matrix products",
            f"{100 * fit['share_of_own_products']:.0f} % of "
            f"{fit['own_product_gflops']:.0f} GFLOP/s for the net's own products, "
            f"{100 * fit['share_of_square_products']:.0f} % of "
            f"{fit['square_product_gflops']:.0f} GFLOP/s for square ones of 2,048",
        ],
        ["`selfadapt --help`", f"{figures['help']['seconds']:.2f} s"],
    ]
    return "\n\n".join(
        [
            "## Speed",
            table(("what", "measured"), rows),
            "Ratios are medians over rounds in which both sides ran in turn, in one process. The\n"
            "plain loop decodes and augments with Pillow in a `DataLoader` of two workers and\n"
            "trains in fp32, as most people write it. The loss alone is slower than\n"
            "`F.cross_entropy`, which remembers nothing; the first rows show what that is beside\n"
            "a net's own work. Feeding the net costs nothing: `fit` is as fast as its steps are\n"
            "alone. It stays below the rate of large square products because the convolutions do,\n"
            "which are PyTorch's, and because batch norm and ReLU multiply no matrices. "
            f"{made_by(content)}",
        ]
    )


def picture() -> None:
    """Test accuracy by epoch, a line a seed. Fixed ids make the file the same at every run."""
    runs = read("demo")["figures"]["runs"]
    mpl.rcParams["svg.hashsalt"] = "selfadapt"
    mpl.rcParams["font.size"] = 11
    figure, axes = plt.subplots(figsize=(7.2, 3.4))
    for method, word in WORDS.items():
        mine = [run["curves"]["test_accuracy"] for run in runs if run["method"] == method]
        for number, curve in enumerate(mine):
            axes.plot(
                range(1, len(curve) + 1),
                [100 * value for value in curve],
                color=COLOURS[method],
                linewidth=1.6,
                alpha=0.85,
                label=word if number == 0 else None,
            )
    axes.set_xlabel("epoch")
    axes.set_ylabel("test accuracy, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower left")
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    figure.savefig(ROOT / "docs/pictures/demo.svg", metadata={"Date": None})


SECTIONS = {"demo": demo_section, "cifar10_noise": cifar_section, "speed": speed_section}

if __name__ == "__main__":
    main()
