"""Interventions on a served model: they do what matrices say, and leave no hook behind."""

import threading

import pytest
import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits import interventions, models
from circuits.heads import without_heads
from circuits.induction import ideal_previous_pattern
from circuits.weights import Head, Weights, forward

EXACT = 1e-10
"""Both in float64; two independent forward passes."""

HEADS = [Head(0, 1), Head(1, 2)]


@pytest.fixture(scope="module")
def model() -> TransformerBridge:
    torch.manual_seed(0)
    cfg = TransformerBridgeConfig(
        d_model=24,
        d_head=8,
        n_heads=3,
        n_layers=2,
        n_ctx=16,
        d_vocab=20,
        attn_only=True,
        normalization_type=None,
        positional_embedding_type="standard",
        dtype=torch.float64,
    )
    model = TransformerBridge.boot_native(cfg, dtype=torch.float64)
    # The start of a training run is nearly zero; here every head has something to say.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("bias"):
                weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    return model


@pytest.fixture(scope="module")
def weights(model) -> Weights:
    return Weights.of(model)


@pytest.fixture(params=[(12,), (3, 12)], ids=["one prompt", "a batch"])
def tokens(request):
    return torch.randint(1, 20, request.param, generator=torch.Generator().manual_seed(1))


def hooks_on(model) -> int:
    points = {id(point): point for point in model.hook_dict.values()}  # one point goes by several names
    return sum(len(point.fwd_hooks) + len(point.bwd_hooks) for point in points.values())


def replaced(weights: Weights, tokens, heads, z) -> torch.Tensor:
    """Logits by a layer-by-layer pass in which ``heads`` write ``z[layer, head] @ W_O`` instead of their own."""
    x = weights.W_E[tokens] + weights.W_pos[: tokens.shape[-1]]
    for layer in range(weights.n_layers):
        outs = []
        for head in range(weights.n_heads):
            one = [W[layer, head] for W in (weights.W_Q, weights.W_K, weights.W_V)]
            q, k, v = (x @ W for W in one)
            mask = torch.ones(x.shape[-2], x.shape[-2]).triu(1).bool()
            A = (q @ k.mT / weights.d_head**0.5).masked_fill(mask, -torch.inf).softmax(-1)
            own = A @ v
            sent = z[..., layer, head, :, :].expand_as(own) if Head(layer, head) in heads else own
            outs.append(sent @ weights.W_O[layer, head])
        x = x + sum(outs)
    return x @ weights.W_U


def test_zero_ablation_is_a_model_without_the_heads(model, weights, tokens):
    run = interventions.run(model, tokens, interventions.zero_ablation(model, HEADS))
    oracle = forward(without_heads(weights, HEADS), tokens)
    assert (run.logits - oracle.logits).abs().max() < EXACT
    assert (run.head_out - oracle.head_out).abs().max() < EXACT
    assert (run.logits - models.run(model, tokens).logits).abs().max() > 0.1


def test_head_z_times_W_O_is_the_head_output(model, weights, tokens):
    z = interventions.head_z(model, tokens)
    assert (z @ weights.W_O - forward(weights, tokens).head_out).abs().max() < EXACT


def test_mean_ablation(model, weights, tokens):
    reference = torch.randint(1, 20, (4, 10), generator=torch.Generator().manual_seed(2))
    z = interventions.head_z(model, reference)[..., 1:, :].mean((0, 3))[:, :, None]
    run = interventions.run(model, tokens, interventions.mean_ablation(model, HEADS, reference))
    assert (run.logits - replaced(weights, tokens, HEADS, z)).abs().max() < EXACT


def test_resample_ablation(model, weights, tokens):
    other = tokens.flip(-1)
    z = interventions.head_z(model, other)
    run = interventions.run(model, tokens, interventions.resample_ablation(model, HEADS, other))
    assert (run.logits - replaced(weights, tokens, HEADS, z)).abs().max() < EXACT


def test_a_replaced_pattern_is_used_and_reported(model, weights, tokens):
    ideal = ideal_previous_pattern(12).double()
    run = interventions.run(model, tokens, interventions.replace_patterns(model, {Head(0, 1): ideal}))
    assert torch.equal(run.pattern[..., 0, 1, :, :], ideal.expand_as(run.pattern[..., 0, 1, :, :]))
    x = weights.W_E[tokens] + weights.W_pos[:12]
    z = torch.zeros(*tokens.shape[:-1], 2, 3, 12, 8, dtype=torch.float64)
    z[..., 0, 1, :, :] = ideal @ x @ weights.W_V[0, 1]
    assert (run.logits - replaced(weights, tokens, [Head(0, 1)], z)).abs().max() < EXACT


def test_own_pattern_and_own_z_change_nothing(model, tokens):
    clean = models.run(model, tokens)
    hooks = interventions.resample_ablation(model, HEADS, tokens)
    assert (interventions.run(model, tokens, hooks).logits - clean.logits).abs().max() < EXACT


def test_hooks_come_off(model, tokens):
    before, hooks = models.run(model, tokens).logits, interventions.zero_ablation(model, HEADS)
    with interventions.hooked(model, hooks):
        assert hooks_on(model) == len(hooks)
    assert hooks_on(model) == 0
    assert torch.equal(models.run(model, tokens).logits, before)


def test_hooks_come_off_after_an_exception_in_the_block(model, tokens):
    before = models.run(model, tokens).logits
    with (
        pytest.raises(RuntimeError, match="reader left"),
        interventions.hooked(model, interventions.zero_ablation(model, HEADS)),
    ):
        raise RuntimeError("reader left")
    assert hooks_on(model) == 0
    assert torch.equal(models.run(model, tokens).logits, before)


def test_hooks_come_off_after_an_exception_in_a_hook(model, tokens):
    def fail(value, hook):
        raise RuntimeError("in the hook")

    before = models.run(model, tokens).logits
    with pytest.raises(RuntimeError, match="in the hook"):
        interventions.run(model, tokens, [("blocks.1.attn.hook_z", fail)])
    assert hooks_on(model) == 0
    assert torch.equal(models.run(model, tokens).logits, before)


def test_other_threads_wait_for_the_lock(model):
    with interventions.hooked(model, []):
        taken = []
        thread = threading.Thread(target=lambda: taken.append(models.LOCK.acquire(blocking=False)))
        thread.start()
        thread.join()
    assert taken == [False]


@pytest.mark.parametrize("head", [Head(2, 0), Head(0, 3), Head(-1, 0)])
def test_a_head_that_is_not_there_is_named(model, head):
    with pytest.raises(ValueError, match=str(head)):
        interventions.zero_ablation(model, [head])


def test_recovered():
    assert interventions.recovered(clean=1.0, ablated=5.0, replaced=2.0) == 0.75
    with pytest.raises(ValueError, match="changed nothing"):
        interventions.recovered(2.0, 2.0, 1.0)
