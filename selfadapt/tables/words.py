"""How settings and numbers are written for a person."""

from __future__ import annotations

from typing import Any

from selfadapt.tables.groups import is_number
from selfadapt.tables.metrics import Metric

MINUS, NONE = "\N{MINUS SIGN}", "–"
_NAMES = {
    "corruption.name": "noise",
    "corruption.rate": "noise rate",
    "data.name": "data",
    "method.name": "method",
    "net.name": "net",
}
PROTOCOLS = {
    "equal": "equal: one budget and schedule for all",
    "own": "own: each method's published schedule",
    "both": "both: its published schedule is that of all",
}


def name_of(setting: str) -> str:
    """method.start → start"""
    return _NAMES.get(setting) or setting.rpartition(".")[2].replace("_", " ")


def value_of(setting: str, value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(value_of(setting, one) for one in value)
    if is_number(value):
        return f"{100 * value:g} %" if is_rate(setting) else f"{value:g}"
    return str(value)


def is_rate(setting: str) -> bool:
    return setting.endswith(".rate")


def said(setting: str, value: Any) -> str:
    """By itself: text says what it is, a number does not."""
    text = value_of(setting, value)
    speaks = isinstance(value, str) and value != "none"
    return text if speaks else f"{name_of(setting)} {text}"


def number(metric: Metric, value: float, *, sign: bool = False) -> str:
    """Shares in percent, without the sign, which stands in the title."""
    plus = "+" if sign else ""
    if metric.unit == "share":
        text = format(100 * value, f"{plus}.1f")
    elif metric.unit == "times":
        text = format(value, f"{plus}.2f") + "×"
    else:
        text = format(value, f"{plus}.4g")
    return MINUS + text[1:] if text.startswith("-") else text


def title_of(metric: Metric, baseline: str) -> str:
    words = metric.words.format(baseline=baseline)
    unit = {"share": "%", "times": "", "number": ""}[metric.unit]
    return ", ".join(filter(None, (words, metric.epoch, unit)))
