"""One head against brute force on a small random model in float64."""

import math

import pytest
import torch

from circuits import heads
from circuits.induction import previous_token_score
from circuits.weights import Head, Weights, causal_mask, forward
from tests.unit.small_model import HEAD, D, H, R, V, dense_ov, dense_qk, random_weights

EXACT = 1e-12
"""float64, sums of a few hundred products of order one."""


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights()


@pytest.fixture(scope="module")
def run(weights):
    return forward(weights, torch.tensor([0, 7, 3, 7, 39, 3, 1, 7]))


def test_shapes_and_ranks_of_the_two_products(weights):
    for product in (heads.W_QK(weights, HEAD), heads.W_OV(weights, HEAD)):
        assert product.shape == (D, D)
        assert torch.linalg.matrix_rank(product.AB) == R
    # The classic slip, W_Qᵀ W_K, is a legal product of the wrong shape.
    assert (weights.W_Q[HEAD].T @ weights.W_K[HEAD]).shape == (R, R)


def test_circuits_are_the_dense_products(weights):
    qk, ov = heads.qk_circuit(weights, HEAD), heads.ov_circuit(weights, HEAD)
    assert (qk.AB - dense_qk(weights)).abs().max() < EXACT
    assert (ov.AB - dense_ov(weights)).abs().max() < EXACT
    assert (heads.row(qk, 3) - dense_qk(weights)[3]).abs().max() < EXACT
    assert (heads.column(qk, 3) - dense_qk(weights)[:, 3]).abs().max() < EXACT
    assert torch.linalg.matrix_rank(ov.AB) == R


def test_row_and_column_refuse_what_is_no_token(weights):
    for token in (-1, V):
        with pytest.raises(ValueError, match=f"token {token} "):
            heads.row(heads.ov_circuit(weights, HEAD), token)
        with pytest.raises(ValueError, match=f"token {token} "):
            heads.column(heads.qk_circuit(weights, HEAD), token)


def test_centring_takes_the_row_mean_and_changes_no_pattern(weights):
    raw, centred = dense_qk(weights), heads.centred_qk_circuit(weights, HEAD).AB
    assert (centred - (raw - raw.mean(1, keepdim=True))).abs().max() < EXACT
    assert (centred.softmax(1) - raw.softmax(1)).abs().max() < EXACT
    assert (centred.softmax(0) - raw.softmax(0)).abs().max() > 0.01  # columns are not that free


def test_summed_ov_is_the_sum(weights):
    layer0 = [Head(0, h) for h in range(H)]
    total = sum(dense_ov(weights, head) for head in layer0)
    assert (heads.summed_ov_circuit(weights, layer0).AB - total).abs().max() < EXACT
    with pytest.raises(ValueError, match="no head"):
        heads.summed_ov_circuit(weights, [])


def test_the_scores_of_a_prompt_are_entries_of_the_circuit(weights):
    tokens = torch.tensor([0, 7, 3, 7])
    run = forward(heads.replace(weights, W_pos=torch.zeros_like(weights.W_pos)), tokens)
    scores = heads.qk_circuit(weights, HEAD).AB[tokens][:, tokens]
    assert (heads.masked(scores) - run.scores[HEAD]).nan_to_num().abs().max() < EXACT


def test_top_tokens():
    top = heads.top_tokens(torch.tensor([0.0, 3.0, 1.0]), k=9)
    assert top.ids.tolist() == [1, 2, 0]
    assert top.values.tolist() == [3, 1, 0]


@pytest.mark.parametrize("head", [Head(0, 2), Head(1, 0)])
def test_head_output_is_a_x_wv_wo(weights, run, head):
    x = run.resid_pre[head.layer]
    brute = torch.zeros_like(x)
    for query in range(len(x)):
        for key in range(query + 1):
            brute[query] += run.pattern[head][query, key] * (x[key] @ weights.W_V[head] @ weights.W_O[head])
    assert (heads.head_output(weights, run, head) - brute).abs().max() < EXACT


def test_value_weighted_pattern_is_the_length_of_what_is_sent(weights, run):
    sent = run.pattern[1, 2, 5, 3] * run.resid_pre[1, 3] @ weights.W_V[1, 2] @ weights.W_O[1, 2]
    assert abs(heads.value_weighted_pattern(weights, run)[1, 2, 5, 3] - sent.norm()) < EXACT


def test_raw_scores_hold_the_future_and_the_mask_removes_it(weights, run):
    scores = heads.raw_scores(weights, run, HEAD)
    assert (heads.masked(scores).softmax(-1) - run.pattern[HEAD]).abs().max() < EXACT
    leaking = heads.future_attention(scores.softmax(-1))
    assert (leaking[:-1] > 0).all()
    assert leaking[-1] == 0  # the last token has no future
    assert (heads.future_attention(run.pattern) == 0).all()


def test_attention_with_the_models_settings_and_with_others(weights, run):
    n = len(run.tokens)
    own = heads.attention(weights, run, HEAD, R**0.5, causal_mask(n))
    assert (own - run.pattern[HEAD]).abs().max() < EXACT
    open_ = heads.attention(weights, run, HEAD, 2 * R**0.5, torch.zeros(n, n, dtype=torch.bool))
    halved = (heads.raw_scores(weights, run, HEAD) / 2).exp()
    assert (open_ - halved / halved.sum(1, keepdim=True)).abs().max() < EXACT


def test_centre_visible_keeps_the_pattern(weights, run):
    raw = heads.raw_scores(weights, run, HEAD)
    centred = heads.centre_visible(raw)
    assert (centred.sum(-1)).abs().max() < EXACT
    assert (heads.masked(centred).softmax(-1) - run.pattern[HEAD]).abs().max() < EXACT


def test_entropy_of_equal_and_of_sure_rows():
    pattern = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    assert torch.allclose(heads.entropy(pattern), torch.tensor([0, math.log(2), math.log(3)], dtype=torch.float64))


def test_attention_by_offset_is_a_mean_over_destinations(run):
    pattern, n = run.pattern, run.pattern.shape[-1]
    offsets = heads.attention_by_offset(pattern)
    assert offsets.shape == (2, H, n - 1)
    for k in range(n - 1):
        brute = sum(pattern[1, 0, i, i - k] for i in range(k + 1, n)) / (n - k - 1)
        assert abs(offsets[1, 0, k] - brute) < EXACT
    assert (offsets[..., 1] - previous_token_score(pattern)).abs().max() < EXACT


def test_the_four_parts_of_a_score(weights, run):
    split = heads.score_split(weights, run, HEAD)
    assert (split.total - heads.raw_scores(weights, run, HEAD)).abs().max() < EXACT
    q, k = weights.W_pos[5] @ weights.W_Q[HEAD], weights.W_E[7] @ weights.W_K[HEAD]
    assert abs(split.pos_tok[5, 3] - q @ k / math.sqrt(R)) < EXACT
    n = len(run.tokens)
    assert (split.pos_pos - heads.positional_circuit(weights, HEAD)[:n, :n]).abs().max() < EXACT
    with pytest.raises(ValueError, match="L1H0"):
        heads.score_split(weights, run, Head(1, 0))


def test_left_singular_vectors_read_and_right_ones_write(weights):
    n = 3
    U, S, Vh = torch.linalg.svd(weights.W_V[HEAD] @ weights.W_O[HEAD])
    for i, direction in enumerate(heads.ov_directions(weights, HEAD, n=n, k=2)):
        assert abs(direction.gain - S[i]) < EXACT
        read, written = weights.W_E @ U[:, i], Vh[i] @ weights.W_U
        ends = [(direction.left_plus, direction.right_plus), (direction.left_minus, direction.right_minus)]
        sign = 1 if ends[0][0].ids[0] == read.argmax() else -1
        for end, (left, right) in zip((sign, -sign), ends, strict=True):
            assert left.ids[0] == (end * read).argmax()
            assert right.ids[0] == (end * written).argmax()
    assert len(heads.ov_directions(weights, HEAD, n=99)) == R


def test_qk_directions_have_the_query_on_the_left(weights):
    U, S, Vh = torch.linalg.svd(weights.W_Q[HEAD] @ weights.W_K[HEAD].T / math.sqrt(R))
    first = heads.qk_directions(weights, HEAD, n=1, k=1)[0]
    assert abs(first.gain - S[0]) < EXACT
    query, key = weights.W_E @ U[:, 0], weights.W_E @ Vh[0]
    assert {first.left_plus.ids.item(), first.left_minus.ids.item()} == {int(query.argmax()), int(query.argmin())}
    assert {first.right_plus.ids.item(), first.right_minus.ids.item()} == {int(key.argmax()), int(key.argmin())}


def test_a_gauge_changes_queries_and_nothing_that_can_be_seen(weights, run):
    R_ = heads.random_gauge(R, seed=1, dtype=torch.float64)
    assert torch.linalg.cond(R_) == pytest.approx(4)
    other = heads.reparametrise(weights, R_)
    assert (other.W_Q - weights.W_Q).abs().max() > 0.1
    assert (other.W_O - weights.W_O).abs().max() > 0.1
    for product in (heads.W_QK, heads.W_OV):
        assert (product(other, HEAD).AB - product(weights, HEAD).AB).abs().max() < EXACT
    again = forward(other, run.tokens)
    assert (again.pattern - run.pattern).abs().max() < EXACT
    assert (again.logits - run.logits).abs().max() < 10 * EXACT  # two layers deep


def test_without_heads_takes_exactly_that_head_away(weights, run):
    without = forward(heads.without_heads(weights, [Head(1, 2)]), run.tokens)
    assert (without.head_out[1, 2] == 0).all()
    assert (run.logits - run.head_out[1, 2] @ weights.W_U - without.logits).abs().max() < 10 * EXACT
    assert (weights.W_O[1, 2] != 0).all()  # the weights given are as they were
