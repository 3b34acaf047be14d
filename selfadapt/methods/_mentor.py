"""MentorNet's mentor: a small net that says from a sample's loss how much it should count."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BURN_IN = 18  # the hundredth of the run that it is told, for it is used from there on
_BATCH, _LARGEST_GRADIENT = 32, 5.0


class Mentor(nn.Module):
    """One logit from a loss and its distance to the running percentile. As in google/mentornet:
    a vector for the label (of which there is one) and one for the epoch (random, never trained),
    and the state of an LSTM of one unit in either direction, whose sequence is the two numbers at
    once: what is left of it is gate times value. Then 20 hidden units. (There the last bias is
    added to the weights, by a slip.)"""

    epochs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.label = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2, 2)))
        self.register_buffer("epochs", nn.init.xavier_uniform_(torch.empty(100, 5)))
        self.gate, self.value = nn.Linear(2, 2), nn.Linear(2, 2)
        self.hidden, self.last = nn.Linear(9, 20), nn.Linear(20, 1)
        for part in (self.gate, self.value):
            nn.init.uniform_(part.weight, -((6 / 7) ** 0.5), (6 / 7) ** 0.5)
            nn.init.zeros_(part.bias)
        for part in (self.hidden, self.last):
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)

    def forward(self, values: Tensor, above: Tensor) -> Tensor:
        seen = torch.stack([values, above], dim=1).float()
        state = self.gate(seen).sigmoid() * self.value(seen).tanh()
        always = torch.cat([self.label[0], self.epochs[BURN_IN]]).expand(len(seen), -1)
        logits: Tensor = self.last(self.hidden(torch.cat([always, state], dim=1)).tanh())
        return logits[:, 0]


def rate(step: int) -> float:
    return 0.1 * 0.9 ** (step // 1000)


def taught(mentor: Mentor, values: Tensor, above: Tensor, right: Tensor, steps: int) -> Mentor:
    """A copy that has learnt which labels are right."""
    mentor = copy.deepcopy(mentor).cpu().requires_grad_(True)
    inputs, target = torch.stack([values, above]).cpu().float(), right.cpu().float()
    optimizer = torch.optim.Adam(mentor.parameters(), fused=True)  # a third of the time is its own
    for step, rows in zip(range(steps), _batches(len(target)), strict=False):
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.zero_grad()
        logits = mentor(inputs[0, rows], inputs[1, rows])
        torch.autograd.backward(F.binary_cross_entropy_with_logits(logits, target[rows]))
        nn.utils.clip_grad_norm_(mentor.parameters(), _LARGEST_GRADIENT)
        optimizer.step()
    return mentor.requires_grad_(False)


def _batches(samples: int) -> Iterator[Tensor]:
    """Of 32, shuffled again whenever fewer are left."""
    while True:
        for rows in torch.split(torch.randperm(samples), _BATCH):
            if len(rows) == min(_BATCH, samples):
                yield rows
