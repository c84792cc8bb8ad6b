"""Losses and scores against their definitions, on small random models."""

import pytest
import torch

from circuits import evaluation, induction
from circuits.evaluation import best_head, loss_on_windows, repeat_scores, window_losses, without_head
from circuits.weights import Head, forward
from tests.conftest import EXACT, bridge_of, random_weights

N_CTX, D_VOCAB = 101, 29


@pytest.fixture(scope="module")
def weights():
    return random_weights(n_ctx=N_CTX, d_vocab=D_VOCAB)


@pytest.fixture(scope="module")
def windows():
    windows = torch.randint(1, D_VOCAB, (11, N_CTX), generator=torch.Generator().manual_seed(5))
    windows[:, 0] = 0
    return windows


def test_losses_are_minus_log_probabilities(weights, windows):
    probs = forward(weights, windows).logits.softmax(-1)
    expected = torch.stack(
        [torch.stack([-probs[w, p, windows[w, p + 1]].log() for p in range(N_CTX - 1)]) for w in range(len(windows))]
    )
    model = bridge_of(weights)
    torch.testing.assert_close(window_losses(model, windows), expected, rtol=0, atol=EXACT)
    assert loss_on_windows(model, windows) == pytest.approx(expected.mean().item(), abs=EXACT)


def test_scores_are_means_over_the_probe(weights):
    probe = induction.repeat_probe(evaluation.PERIOD, batch=4, d_vocab=D_VOCAB)
    scores, pattern = repeat_scores(weights, probe), forward(weights, probe).pattern
    n, period = N_CTX, evaluation.PERIOD
    for head in weights.heads:
        A = pattern[:, head.layer, head.head]
        previous = torch.stack([A[:, i, i - 1] for i in range(2, n)]).mean()
        induced = torch.stack([A[:, i, i - period + 1] for i in range(period + 1, n)]).mean()
        duplicate = torch.stack([A[:, i, i - period] for i in range(period + 1, n)]).mean()
        assert scores.previous[head].item() == pytest.approx(previous.item(), abs=EXACT)
        assert scores.induction[head].item() == pytest.approx(induced.item(), abs=EXACT)
        assert scores.duplicate[head].item() == pytest.approx(duplicate.item(), abs=EXACT)
    assert scores.previous_token_head == max(weights.heads, key=lambda head: scores.previous[head])
    assert scores.induction_head == max(weights.heads, key=lambda head: scores.induction[head])


def test_a_head_without_output_changes_the_stream_by_what_it_wrote(weights, windows):
    head = Head(1, 2)
    whole, without = forward(weights, windows), forward(without_head(weights, head), windows)
    torch.testing.assert_close(
        whole.resid_final - without.resid_final, whole.head_out[:, head.layer, head.head], rtol=0, atol=EXACT
    )
    assert weights.W_O[head].any()  # the original is as it was


def test_evaluation_puts_them_together(weights, windows):
    result = evaluation.evaluate(bridge_of(weights), windows)
    assert result.n_windows == len(windows)
    head = result.repeats.previous_token_head
    assert result.ablated.copy_loss == pytest.approx(repeat_scores(without_head(weights, head)).copy_loss, abs=EXACT)
    assert result.ablated.copy_loss != result.repeats.copy_loss


def test_no_heads_no_best_head():
    with pytest.raises(ValueError, match="no heads"):
        best_head(torch.zeros(0, 8))
