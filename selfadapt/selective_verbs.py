"""The commands about when not to answer."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from selfadapt import errors
from selfadapt.parameters import Flag, Sets, Several


def evaluate(
    run: Path,
    /,
    *,
    selective: Annotated[bool, Flag] = False,
    data: str | None = None,
    against: str | None = None,
    score: Several = None,
    true_labels: Annotated[bool, Flag] = False,
    set: Sets = None,
) -> None:
    """Measure a trained run on samples that it did not train on.

    With --selective: how the error falls as fewer samples are answered, by every score of how
    little the model knows. Table, figure and JSON go to RUN/evaluation.

    Example: selfadapt evaluate runs/a --selective --against other_photos/

    Parameters
    ----------
    run
        A finished run directory.
    selective
        Compare the scores to abstain by.
    data
        Labelled samples to measure on; by default the run's test part.
    against
        Samples of another kind, labelled or not, which a good score tells apart; or left_out, those
        of the classes in the run's data.without.
    score
        Only these scores: abstain, softmax, margin, entropy, energy, dropout.
    true_labels
        Measure by true labels, where they are known, instead of those given.
    set
        How to read data: data.label, data.path, data.root, …
    """
    from selfadapt import abstention, hand_over, recipe, terminal

    if not selective:
        raise errors.BadInput("say what to measure: --selective")
    reading = hand_over.only(("data",), recipe.parse(set or []))["data"]
    screen = terminal.console()
    with terminal.View(screen) as view:
        found = abstention.evaluate(
            run,
            data=data,
            against=against,
            scores=score or (),
            reading=reading,
            true_labels=true_labels,
            show=view.run("evaluate"),
        )
    figures = found.figures
    screen.print(
        f"{figures['samples']:,} samples of {figures['part']}: accuracy "
        f"{terminal.percent(figures['accuracy'])}, calibration error "
        f"{terminal.percent(figures['calibration_error'])}. Error where so many are answered:"
    )
    screen.print(terminal.result_table(_side_by_side(figures)))
    screen.print(f"Everything is in {found.files[0].parent}", markup=False)


def _side_by_side(figures: Mapping[str, Any]) -> list[dict[str, str]]:
    from selfadapt.tables.silence import lines

    header, body = lines(figures, short=True)
    return [dict(zip(header, line, strict=True)) for line in body]


def threshold(
    run: Path,
    /,
    *,
    coverage: float | None = None,
    risk: float | None = None,
    confidence: float = 0.95,
    cost: str | None = None,
    score: str | None = None,
    data: str | None = None,
    true_labels: Annotated[bool, Flag] = False,
    set: Sets = None,
) -> None:
    """Set when a run's predictions abstain, on samples held out for that (data.calibration).

    Example: selfadapt threshold runs/a --risk 0.01 --confidence 0.95

    Parameters
    ----------
    run
        A finished run directory, trained with --set data.calibration=0.1.
    coverage
        Answer this share of samples.
    risk
        Answer as many as keep the share of wrong answers at or below this.
    confidence
        Of the promise that --risk makes.
    cost
        abstain=0.2: no answer costs this much, a wrong one 1.
    score
        abstain, softmax, margin, entropy, energy or dropout; by default the method's own, else
        softmax.
    data
        Labelled samples that the run has never seen, instead of those it held out.
    true_labels
        Go by true labels, where they are known, instead of those given.
    set
        How to read data: data.label, data.path, data.root, …
    """
    from selfadapt import abstention, hand_over, recipe, terminal

    reading = hand_over.only(("data",), recipe.parse(set or []))["data"]
    screen = terminal.console()
    with terminal.View(screen) as view:
        found = abstention.set_threshold(
            run,
            coverage=coverage,
            risk=risk,
            confidence=confidence,
            cost=_price(cost),
            score=score,
            data=data,
            reading=reading,
            true_labels=true_labels,
            show=view.run("threshold"),
        )
    for line in _told(found, run):
        screen.print(line, markup=False)


def _price(cost: str | None) -> float | None:
    """0.2 of abstain=0.2."""
    if cost is None:
        return None
    name, equals, text = cost.partition("=")
    try:
        if name.strip() == "abstain" and equals:
            return float(text)
    except ValueError:
        pass
    raise errors.BadInput(f"--cost says what no answer costs, such as abstain=0.2; got {cost!r}")


def at_most(share: float) -> str:
    """A promise is rounded up."""
    return f"{math.ceil(share * 1e4 - 1e-9) / 100:.2f} %"


def _told(found: Mapping[str, Any], run: Path) -> list[str]:
    from selfadapt.terminal import percent

    by = found["by"]
    if found["threshold"] is None:
        return [
            f"No threshold reaches a risk of {100 * by['risk']:g} % with confidence "
            f"{percent(by['confidence'])} on {found['samples']:,} samples of {found['part']}. The "
            f"lowest risk that can be promised is {at_most(found['best_risk'])};"
            " more samples to set it on promise more. Nothing was changed."
        ]
    on = f"{found['samples']:,} samples of {found['part']}"
    if found["error"] is None:
        return [f"Answers nothing: by {on} that is what was asked for. It is set all the same."]
    lines = [
        f"Answers where {found['score']} is at most {found['threshold']:.6g}: of {on} "
        f"{percent(found['coverage'])} are answered, and {percent(found['error'])} of those wrong."
    ]
    if "risk" in by:
        lines.append(
            f"With confidence {percent(by['confidence'])} at most {at_most(found['bound'])} are "
            "wrong among answers to new samples of the same kind."
        )
    quoted = shlex.quote(str(run))
    lines.append(f"From now on: selfadapt predict {quoted} DATA --to predictions.csv")
    return lines
