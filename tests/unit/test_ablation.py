"""The loss of text, and what it costs to silence a head."""

import pytest
import torch

from circuits import ablation
from circuits.heads import without_heads
from circuits.weights import Head, forward
from tests.unit.small_model import V, random_weights

EXACT = 1e-12
"""float64, a mean of logarithms of order one."""


@pytest.fixture(scope="module")
def windows():
    body = torch.randint(1, V, (5, 11), generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.zeros(5, 1, dtype=torch.long), body], 1)


@pytest.mark.parametrize("batch", [2, 8])
def test_text_loss_is_the_mean_over_predicted_tokens(windows, monkeypatch, batch):
    monkeypatch.setattr(ablation, "BATCH", batch)
    weights, total = random_weights(), 0.0
    for window in windows:
        log_probs = forward(weights, window).logits.log_softmax(-1)
        total += sum(-log_probs[i, window[i + 1]] for i in range(len(window) - 1))
    assert abs(ablation.text_loss(weights, windows) - total / (5 * 11)) < EXACT


def test_costs_are_losses_without_each_head_in_turn(windows):
    weights = random_weights()
    costs = ablation.ablation_costs(weights, windows)
    assert costs.heads == weights.heads
    assert costs.loss == ablation.text_loss(weights, windows)
    head = Head(1, 2)
    without = ablation.text_loss(without_heads(weights, [head]), windows)
    assert costs.rise[weights.heads.index(head)].item() == pytest.approx(without - costs.loss, rel=1e-5)  # float32
    silent = ablation.ablation_costs(without_heads(weights, weights.heads), windows)
    assert (silent.rise == 0).all()
