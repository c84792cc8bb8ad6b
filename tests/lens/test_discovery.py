"""Every edge and every activation patch against a hooked forward pass of TransformerLens, one at a time."""

import pytest
import torch
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.model_bridge import TransformerBridge

from circuits import discovery, induction, models
from circuits.weights import Head, Weights

EXACT = 1e-9  # float64 in both; the bridge sums in another order
HOOK = {"q": "hook_q", "k": "hook_k", "v": "hook_v", "z": "hook_z", "pattern": "hook_pattern"}


@pytest.fixture(scope="module")
def model() -> TransformerBridge:
    torch.manual_seed(0)
    cfg = TransformerBridgeConfig(
        d_model=12, d_head=4, n_heads=3, n_layers=2, n_ctx=9, d_vocab=19, attn_only=True, normalization_type=None,
        positional_embedding_type="standard", dtype=torch.float64,
    )  # fmt: skip
    model = TransformerBridge.boot_native(cfg, dtype=torch.float64)
    with torch.no_grad():
        for name, value in model.named_parameters():
            torch.nn.init.zeros_(value) if name.endswith("bias") else torch.nn.init.normal_(value, std=0.6)
    return model


@pytest.fixture(scope="module")
def weights(model) -> Weights:
    return Weights.of(model)


@pytest.fixture(scope="module")
def pair() -> discovery.Pair:
    return discovery.repeat_pair("BC", period=4, batch=3, d_vocab=19, seed=3)


@pytest.fixture(scope="module")
def caches(model, pair) -> tuple:
    return tuple(model.run_with_cache(tokens)[1] for tokens in (pair.clean, pair.corrupt))


def metric(model, pair, hooks=()) -> float:
    logits = model.run_with_hooks(pair.clean, fwd_hooks=list(hooks))[:, -1]
    rows = torch.arange(len(logits))
    return (logits[rows, pair.answer] - logits[rows, pair.wrong]).mean().item()


def written(cache, model, source: str) -> torch.Tensor:
    """What one node wrote, from the bridge's own cache and state dict."""
    if source in ("embed", "pos"):
        return cache["hook_embed" if source == "embed" else "hook_pos_embed"]
    layer, head = int(source[1]), int(source[3])
    W_O = model.state_dict()[f"blocks.{layer}.attn.o.weight"].T[4 * head : 4 * head + 4]
    return cache[f"blocks.{layer}.attn.hook_z"][:, :, head] @ W_O


def edge_hook(model, caches, edge: discovery.Edge) -> tuple:
    """The hook that corrupts one summand of one reading."""
    clean, corrupt = (written(cache, model, edge.source) for cache in caches)
    if edge.reader is None:
        return "ln_final.hook_in", lambda value, hook: value + corrupt - clean
    layer, head = edge.reader
    W = model.state_dict()[f"blocks.{layer}.attn.{edge.input}.weight"].T[:, 4 * head : 4 * head + 4]

    def hook(value, hook):
        changed = value.clone()
        changed[:, :, head] += (corrupt - clean) @ W
        return changed

    return f"blocks.{layer}.attn.hook_{edge.input}", hook


@torch.inference_mode()
def test_every_edge_is_a_hooked_path_patch(model, weights, pair, caches):
    effects = discovery.edge_effects(weights, pair)
    clean = metric(model, pair)
    hooked = [metric(model, pair, [edge_hook(model, caches, edge)]) - clean for edge in discovery.graph(weights)]
    torch.testing.assert_close(effects, torch.tensor(hooked, dtype=torch.float64), atol=EXACT, rtol=0)
    assert effects.abs().max() > 0.01  # a metric that nothing moves would agree with anything


@torch.inference_mode()
@pytest.mark.parametrize("kind", discovery.KINDS)
def test_every_activation_patch_is_a_hooked_one(model, weights, pair, caches, kind):
    shift = {kind: discovery.differences(weights, pair)[kind]}
    effects = discovery.activation_patching(weights, pair, shift)[kind]
    clean = metric(model, pair)
    for layer, head in weights.heads:
        name = f"blocks.{layer}.attn.{HOOK[kind]}"

        at = (slice(None), head) if kind == "pattern" else (slice(None), slice(None), head)

        def hook(value, hook, name=name, at=at):
            changed = value.clone()
            changed[at] = caches[1][name][at]
            return changed

        assert effects[layer, head].item() == pytest.approx(metric(model, pair, [(name, hook)]) - clean, abs=EXACT)


@pytest.fixture(scope="module")
def shipped() -> Weights:
    return Weights.of(models.load("two-layer"))


def heads_of_the_circuit(weights: Weights) -> tuple[Head, Head]:
    """The previous-token head of layer 0 and the best induction head of layer 1, by their patterns."""
    patterns = discovery.activations(weights, induction.repeat_probe(period=24, batch=4)).pattern
    previous = induction.previous_token_score(patterns).mean(0)[0].argmax()
    best = induction.induction_score(patterns, 24).mean(0)[1].argmax()
    return Head(0, int(previous)), Head(1, int(best))


def test_the_shipped_model_keeps_the_edge_from_the_previous_token_head_to_the_induction_keys(shipped):
    pair = discovery.repeat_pair("BB", period=24, batch=8)
    previous, best = heads_of_the_circuit(shipped)
    effects, edges = discovery.edge_effects(shipped, pair), discovery.graph(shipped)
    keep = discovery.strongest(effects, 40)
    assert next(discovery.faithfulness(shipped, pair, [keep])) > 0.8
    kept = {edge for edge, k in zip(edges, keep, strict=True) if k}
    assert discovery.Edge(str(previous), best, "k") in kept
    from_heads = {
        edge: abs(e.item())
        for edge, e in zip(edges, effects, strict=True)
        if edge.reader == best and edge.source[0] == "L"
    }
    assert max(from_heads, key=from_heads.get) == discovery.Edge(str(previous), best, "k")
