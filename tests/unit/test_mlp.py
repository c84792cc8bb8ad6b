"""Memories one by one against the layer's forward pass, and edits against a forward pass with edited weights."""

from dataclasses import replace

import pytest
import torch

from circuits import mlp
from circuits.weights import Run, Weights, forward

EXACT = 1e-10  # float64, sums of a few dozen terms of size 1
V, D, R, H, M, N_CTX = 17, 10, 5, 2, 24, 9
POSITION = 5


def random_weights(n_layers: int) -> Weights:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[-2] ** 0.5

    into, out = (n_layers, H, D, R), (n_layers, H, R, D)
    return Weights(
        W_E=4 * normal(V, D),
        W_pos=2 * normal(N_CTX, D),
        W_Q=normal(*into),
        W_K=normal(*into),
        W_V=normal(*into),
        W_O=normal(*out),
        W_U=normal(D, V),
        W_in=normal(n_layers, D, M),
        b_in=normal(n_layers, M),
        W_out=normal(n_layers, M, D),
        b_out=normal(n_layers, D),
    )


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights(1)


@pytest.fixture(scope="module")
def run(weights) -> Run:
    return forward(weights, torch.tensor([0, 3, 8, 3, 16, 2, 9]))


def test_the_layer_is_the_sum_of_its_memories(weights, run):
    """Memory by memory: keys are columns of W_in, values rows of W_out."""
    x = mlp.inputs(run)
    total = weights.b_out[0].expand_as(x).clone()
    for i in range(M):
        key, value = weights.W_in[0, :, i], weights.W_out[0, i]
        assert torch.equal(mlp.keys(weights)[i], key)
        assert torch.equal(mlp.values(weights)[i], value)
        total += torch.relu(x @ key + weights.b_in[0, i])[:, None] * value
    torch.testing.assert_close(total, run.mlp_out[0], atol=EXACT, rtol=0)
    written = mlp.writes(weights, mlp.activations(weights, x)).sum(-2) + weights.b_out[0]
    torch.testing.assert_close(written, run.mlp_out[0], atol=EXACT, rtol=0)


def test_activations_on_tokens_are_those_of_the_run(weights, run):
    expected = mlp.activations(weights, mlp.inputs(run))
    torch.testing.assert_close(mlp.activations_on(weights, run.tokens), expected, atol=EXACT, rtol=0)
    assert 0 < (expected > 0).double().mean() < 1  # ReLU leaves some silent, or the tests here test little
    gelu = mlp.activations(weights, mlp.inputs(run), nonlinearity=torch.nn.functional.gelu)
    assert (gelu < 0).any()  # a smooth gate is hardly ever exactly shut


def without(weights: Weights, run: Run, silenced: list[int]) -> torch.Tensor:
    """Next-token log-probabilities of a model whose silenced memories have zero values."""
    W_out = weights.W_out.clone()
    W_out[0, silenced] = 0
    return forward(replace(weights, W_out=W_out), run.tokens).logits[POSITION].log_softmax(-1)


def kl(whole: torch.Tensor, other: torch.Tensor) -> float:
    return torch.nn.functional.kl_div(other, whole, log_target=True, reduction="sum").item()


def test_keeping_k_memories_is_silencing_the_rest(weights, run):
    counts = [0, 1, 5, M]
    kept = mlp.keep_strongest(weights, run, POSITION, counts)
    activation = mlp.activations(weights, mlp.inputs(run))[POSITION]
    size = [(activation[i] * weights.W_out[0, i]).norm().item() for i in range(M)]
    order = sorted(range(M), key=lambda i: -size[i])
    whole = run.logits[POSITION].log_softmax(-1)
    output = run.mlp_out[0, POSITION] - weights.b_out[0]
    for row, count in enumerate(counts):
        other = without(weights, run, order[count:])
        torch.testing.assert_close(kept.probs[row], other.exp(), atol=EXACT, rtol=0)
        assert kept.kl[row].item() == pytest.approx(kl(whole, other), abs=EXACT)
        assert kept.prediction[row] == other.argmax()
        partial = sum((activation[i] * weights.W_out[0, i] for i in order[:count]), torch.zeros(D, dtype=torch.float64))
        assert kept.error[row].item() == pytest.approx(((output - partial).norm() / output.norm()).item(), abs=EXACT)
    assert kept.error[0].item() == pytest.approx(1, abs=EXACT)
    assert kept.error[-1].item() == pytest.approx(0, abs=EXACT)
    assert (kept.error.diff() != 0).all()


def test_ablating_a_memory_is_a_value_of_zero(weights, run):
    ablated = mlp.ablate(weights, run, POSITION, range(M))
    whole = run.logits[POSITION].log_softmax(-1)
    for i in range(M):
        other = without(weights, run, [i])
        torch.testing.assert_close(ablated.probs[i], other.exp(), atol=EXACT, rtol=0)
        assert ablated.kl[i].item() == pytest.approx(kl(whole, other), abs=EXACT)
    silent = mlp.activations(weights, mlp.inputs(run))[POSITION] == 0
    assert ablated.kl[silent].abs().max() < EXACT
    assert len(mlp.ablate(weights, run, POSITION, []).neuron) == 0


def test_value_and_key_through_the_vocabulary(weights):
    logits = mlp.value_logits(weights, 3)
    raw = torch.tensor([weights.W_out[0, 3] @ weights.W_U[:, t] for t in range(V)])
    torch.testing.assert_close(logits, raw - raw.mean(), atol=EXACT, rtol=0)
    matches = torch.tensor([weights.W_E[t] @ weights.W_in[0, :, 3] for t in range(V)])
    torch.testing.assert_close(mlp.key_matches(weights, 3), matches, atol=EXACT, rtol=0)
    up, down = mlp.top_tokens(logits, 4)
    assert up.tolist() == logits.argsort(descending=True)[:4].tolist()
    assert down.tolist() == logits.argsort()[:4].tolist()


def test_a_neuron_that_writes_minus_what_it_reads_is_a_deletion_neuron():
    generator = torch.Generator().manual_seed(1)
    d, m = 400, 60
    W_in, W_out = (torch.randn(1, *shape, generator=generator) for shape in ((d, m), (m, d)))
    W_out[0, 7] = -2 * W_in[0, :, 7]
    into, out = torch.zeros(1, 1, d, 1), torch.zeros(1, 1, 1, d)
    mlp_part = {"W_in": W_in, "b_in": torch.zeros(1, m), "W_out": W_out, "b_out": torch.zeros(1, d)}
    weights = Weights(torch.zeros(3, d), torch.zeros(2, d), into, into, into, out, torch.zeros(d, 3), **mlp_part)
    cosines = mlp.key_value_cosines(weights)
    assert cosines[7].item() == pytest.approx(-1, abs=1e-6)
    assert mlp.deletion_neurons(weights).nonzero().tolist() == [[7]]
    assert cosines[:7].std().item() == pytest.approx(d**-0.5, rel=1)  # random pairs: sd 1/√d


def test_agreement_counts_memory_by_memory(weights, run):
    active, sharing = mlp.agreement(weights, run)
    for position in range(len(run.tokens)):
        x = mlp.inputs(run)[position]
        on = [i for i in range(M) if x @ weights.W_in[0, :, i] + weights.b_in[0, i] > 0]
        favourite = (run.mlp_out[0, position] @ weights.W_U).argmax()
        same = [i for i in on if (weights.W_out[0, i] @ weights.W_U).argmax() == favourite]
        assert (active[position], sharing[position]) == (len(on), len(same))


def test_frozen_gates_are_linear_and_live_ones_are_not(weights, run):
    through = mlp.through(weights, run, POSITION)
    output = run.mlp_out[0, POSITION]
    torch.testing.assert_close(through.frozen.sum(0) + through.bias, output, atol=EXACT, rtol=0)
    assert (through.live.sum(0) + through.bias - output).abs().max() > 0.01
    x = mlp.inputs(run)[POSITION]
    sources = [run.embed[POSITION], run.pos_embed[POSITION], *run.head_out[0, :, POSITION]]
    torch.testing.assert_close(sum(sources), x, atol=EXACT, rtol=0)
    for i, source in enumerate(sources):
        rest = mlp.activations(weights, x - source)
        torch.testing.assert_close(
            through.live[i], output - rest @ weights.W_out[0] - weights.b_out[0], atol=EXACT, rtol=0
        )
        assert through.flipped[i] == ((rest > 0) != (mlp.activations(weights, x) > 0)).sum()


def test_what_cannot_be_done_is_said(weights, run):
    with pytest.raises(ValueError, match="no MLP"):
        mlp.keys(replace(weights, W_in=None))
    with pytest.raises(ValueError, match="25 memories"):
        mlp.keep_strongest(weights, run, POSITION, [25])
    with pytest.raises(ValueError, match="no neuron 24"):
        mlp.ablate(weights, run, POSITION, [3, 24])
    with pytest.raises(ValueError, match="one-layer"):
        mlp.ablate(random_weights(2), run, POSITION, [3])
