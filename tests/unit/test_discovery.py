"""Patching against brute force: one plain forward pass for every head, kind and edge."""

import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from circuits import discovery
from circuits.discovery import patching
from circuits.weights import Head, Weights, forward

EXACT = 1e-10  # float64, sums of a few hundred terms of size 1
LINEAR = 1e-4  # a central difference quotient: a third derivative times a step of 1e-4 squared
DIFFERENT = 1e-3  # where two numbers must not agree
SIZES = {"d_vocab": 19, "d_model": 12, "d_head": 4, "n_ctx": 9}


def random_weights(n_layers: int, seed: int = 0, n_heads: int = 3) -> Weights:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64) / shape[-2] ** 0.5

    d, r, h, V = SIZES["d_model"], SIZES["d_head"], n_heads, SIZES["d_vocab"]
    into, out = (n_layers, h, d, r), (n_layers, h, r, d)
    # Queries and keys are made large: attention must be far from uniform for the softmax to matter.
    return Weights(
        W_E=4 * normal(V, d),
        W_pos=2 * normal(SIZES["n_ctx"], d),
        W_Q=2 * normal(*into),
        W_K=2 * normal(*into),
        W_V=normal(*into),
        W_O=normal(*out),
        W_U=normal(d, V),
    )


@pytest.fixture(scope="module", params=[1, 2, 3])
def weights(request) -> Weights:
    return random_weights(request.param)


@pytest.fixture(scope="module")
def two_layers() -> Weights:
    return random_weights(2)


@pytest.fixture(scope="module")
def pair() -> discovery.Pair:
    return discovery.repeat_pair("BB", period=4, batch=3, d_vocab=SIZES["d_vocab"], seed=1)


def metric_of(weights: Weights, pair: discovery.Pair, tokens: torch.Tensor) -> float:
    logits = forward(weights, tokens).logits[:, -1]
    rows = torch.arange(len(tokens))
    return (logits[rows, pair.answer] - logits[rows, pair.wrong]).mean().item()


def test_metrics_are_logit_differences(weights, pair):
    clean, corrupt = discovery.metrics(weights, pair)
    assert clean == pytest.approx(metric_of(weights, pair, pair.clean), abs=EXACT)
    assert corrupt == pytest.approx(metric_of(weights, pair, pair.corrupt), abs=EXACT)


def test_activations_are_those_of_the_forward_pass(weights, pair):
    run = forward(weights, pair.clean)
    activations = discovery.activations(weights, pair.clean)
    torch.testing.assert_close(activations.pattern, run.pattern, atol=EXACT, rtol=0)
    torch.testing.assert_close(activations.z @ weights.W_O, run.head_out, atol=EXACT, rtol=0)
    total = discovery.components(weights, activations, pair.clean).sum(1)
    torch.testing.assert_close(total, run.resid_final, atol=EXACT, rtol=0)


@pytest.mark.parametrize("kind", discovery.KINDS)
def test_activation_patching_is_one_forward_pass_a_head(weights, pair, kind):
    shift = discovery.differences(weights, pair)[kind]
    fast = discovery.activation_patching(weights, pair, {kind: shift})[kind]
    clean, _ = discovery.metrics(weights, pair)
    for head in weights.heads:
        only = torch.zeros_like(shift)
        only[:, head.layer, head.head] = shift[:, head.layer, head.head]
        _, resid = discovery.shifted_forward(weights, pair.clean, {kind: only})
        slow = patching.metric(resid, pair.direction(weights)).item() - clean
        assert fast[head].item() == pytest.approx(slow, abs=EXACT), head


@pytest.mark.parametrize("kind", discovery.KINDS)
def test_attribution_is_the_slope_of_activation_patching(weights, pair, kind):
    step = 1e-4
    shift = discovery.differences(weights, pair)[kind]
    ahead, behind = (discovery.activation_patching(weights, pair, {kind: s * shift})[kind] for s in (step, -step))
    estimate = discovery.attribution_patching(weights, pair)[kind]
    torch.testing.assert_close(estimate, (ahead - behind) / (2 * step), atol=LINEAR, rtol=0)


def test_attribution_is_exact_in_the_last_layer_and_not_below(two_layers, pair):
    exact = discovery.activation_patching(two_layers, pair, discovery.differences(two_layers, pair))
    estimate = discovery.attribution_patching(two_layers, pair)
    for kind in ("v", "pattern", "z"):
        torch.testing.assert_close(estimate[kind][1], exact[kind][1], atol=EXACT, rtol=0)
    for kind in discovery.KINDS:
        assert (estimate[kind][0] - exact[kind][0]).abs().max() > DIFFERENT, kind
    for kind in "qk":
        assert (estimate[kind][1] - exact[kind][1]).abs().max() > DIFFERENT, kind


def test_attribution_works_where_gradients_are_off(two_layers, pair):
    expected = discovery.attribution_patching(two_layers, pair)
    with torch.inference_mode():
        inside = discovery.attribution_patching(two_layers.map(torch.clone), pair)
    torch.testing.assert_close(inside["z"], expected["z"], atol=EXACT, rtol=0)


def test_the_graph_of_two_layers_of_eight_heads_has_306_edges():
    weights = random_weights(2, n_heads=8)
    edges = discovery.graph(weights)
    assert len(edges) == len(set(edges)) == 2 * 3 * 8 + 10 * 3 * 8 + 18
    assert str(discovery.Edge("L0H3", Head(1, 4), "k")) in map(str, edges)
    assert str(edges[-1]) == "L1H7 → logits"


def test_an_edge_is_the_whole_graph_without_it(weights, pair):
    """Every edge: patched alone, and removed from the full circuit, which is another program."""
    effects = discovery.edge_effects(weights, pair)
    clean, _ = discovery.metrics(weights, pair)
    without = ~torch.eye(len(effects), dtype=torch.bool)
    circuits = torch.tensor(list(discovery.circuit_metrics(weights, pair, without)), dtype=torch.float64)
    torch.testing.assert_close(effects, circuits - clean, atol=EXACT, rtol=0)


def test_edge_attributions_into_one_input_sum_to_the_attribution_of_that_input(weights, pair):
    estimate = dict(zip(discovery.graph(weights), discovery.edge_attribution(weights, pair), strict=True))
    nodes = discovery.attribution_patching(weights, pair)
    for head in weights.heads:
        for kind in "qkv":
            total = sum(value for edge, value in estimate.items() if (edge.reader, edge.input) == (head, kind))
            assert total.item() == pytest.approx(nodes[kind][head].item(), abs=EXACT)


def test_edge_attribution_is_exact_where_the_metric_is_linear(two_layers, pair):
    exact, estimate = discovery.edge_effects(two_layers, pair), discovery.edge_attribution(two_layers, pair)
    linear = [
        edge.input == "logits" or (edge.input == "v" and edge.reader.layer == 1) for edge in discovery.graph(two_layers)
    ]
    torch.testing.assert_close(estimate[linear], exact[linear], atol=EXACT, rtol=0)
    assert (estimate - exact).abs().max() > DIFFERENT


def test_the_full_graph_is_the_model_and_the_empty_one_is_corrupt(weights, pair):
    ends = torch.stack([torch.ones(len(discovery.graph(weights)), dtype=torch.bool)] * 2)
    ends[1] = False
    full, empty = discovery.faithfulness(weights, pair, ends)
    assert full == pytest.approx(1, abs=EXACT)
    assert empty == pytest.approx(0, abs=EXACT)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(0, 63))
def test_a_circuit_without_edges_to_the_logits_explains_nothing(seed, kept):
    weights, pair = random_weights(2), discovery.repeat_pair("BB", 4, 2, SIZES["d_vocab"], seed)
    edges = discovery.graph(weights)
    keep = discovery.strongest(torch.randn(len(edges), generator=torch.Generator().manual_seed(seed)), kept)
    keep &= torch.tensor([edge.input != "logits" for edge in edges])
    assert next(discovery.faithfulness(weights, pair, [keep])) == pytest.approx(0, abs=EXACT)


def test_strongest_keeps_by_size_and_not_by_sign():
    effects = torch.tensor([0.5, -3, 0, 2, -1])
    assert discovery.strongest(effects, 3).tolist() == [False, True, False, True, True]
    assert discovery.strongest(effects, 0).sum() == 0
    assert discovery.strongest(effects, 5).all()


def test_zero_ablation_is_a_head_whose_W_O_is_zero(two_layers, pair):
    replacement = discovery.Ablation.of(two_layers, pair, pair.clean)
    effects = discovery.ablate_each(two_layers, pair, replacement.zero)
    clean, _ = discovery.metrics(two_layers, pair)
    for head in two_layers.heads:
        W_O = two_layers.W_O.clone()
        W_O[head] = 0
        gone = metric_of(replace(two_layers, W_O=W_O), pair, pair.clean)
        assert effects[head].item() == pytest.approx(gone - clean, abs=EXACT)


def test_mean_and_resample_ablation_put_what_they_say(two_layers, pair):
    replacement = discovery.Ablation.of(two_layers, pair, pair.clean)
    z = discovery.activations(two_layers, pair.clean).z
    torch.testing.assert_close(replacement.mean, z.mean(0), atol=EXACT, rtol=0)
    other = discovery.activations(two_layers, pair.corrupt).z
    torch.testing.assert_close(replacement.resample, other, atol=EXACT, rtol=0)
    assert discovery.ablate_each(two_layers, pair, z).abs().max() < EXACT  # replaced by itself
    with pytest.raises(ValueError, match="7 and 8 tokens"):
        discovery.Ablation.of(two_layers, pair, pair.clean[:, :7])


def test_heads_ablated_together_are_heads_ablated_in_one_run(two_layers, pair):
    replacement = discovery.Ablation.of(two_layers, pair, pair.clean).zero
    each = discovery.ablate_each(two_layers, pair, replacement)
    clean = discovery.ablate_together(two_layers, pair, replacement, [])
    assert clean.metric == pytest.approx(discovery.metrics(two_layers, pair)[0], abs=EXACT)
    for head in two_layers.heads:
        alone = discovery.ablate_together(two_layers, pair, replacement, [head])
        assert alone.metric - clean.metric == pytest.approx(each[head].item(), abs=EXACT)
    gone = replace(two_layers, W_O=torch.zeros_like(two_layers.W_O))
    together = discovery.ablate_together(two_layers, pair, replacement, two_layers.heads)
    assert together.metric == pytest.approx(metric_of(gone, pair, pair.clean), abs=EXACT)
    probs = forward(gone, pair.clean).logits[:, -1].softmax(-1)[torch.arange(3), pair.answer]
    assert together.probability == pytest.approx(probs.mean().item(), abs=EXACT)


def test_or_hides_from_noising_and_and_hides_from_denoising():
    OR, AND = discovery.gate_patching(torch.maximum), discovery.gate_patching(torch.minimum)
    assert OR == ((1, 1, 0), (1, 1, 1))
    assert AND == ((0, 0, 0), (0, 0, 1))


@pytest.mark.parametrize("corruption", discovery.CORRUPTIONS)
def test_repeat_pairs_are_what_their_name_says(corruption):
    pair = discovery.repeat_pair(corruption, period=5, batch=4, d_vocab=40, seed=2)
    assert pair.clean.shape == pair.corrupt.shape == (4, 10)
    assert not pair.clean[:, 0].any()
    assert not pair.corrupt[:, 0].any()
    A, B = pair.clean[:, 1:6], discovery.repeat_pair("BB", 5, 4, 40, 2).corrupt[:, 1:6]
    assert torch.equal(pair.clean[:, 6:], A[:, :4])
    assert torch.equal(pair.answer, A[:, 4])
    assert torch.equal(pair.wrong, B[:, 4])
    halves = {"A": A, "B": B}
    for name, half in zip(corruption, (pair.corrupt[:, 1:6], pair.corrupt[:, 6:]), strict=True):
        if name in halves:
            assert torch.equal(half, halves[name][:, : half.shape[1]])
        else:
            assert not (half[:, :, None] == torch.cat([A, B], 1)[:, None]).any()


def test_pairs_refuse_what_cannot_be_patched(two_layers):
    with pytest.raises(ValueError, match="has 3 tokens and the corrupt one 2"):
        discovery.Pair.of_prompts(two_layers, torch.tensor([0, 1, 2]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"same token \(5\)"):
        discovery.Pair.of_prompts(two_layers, torch.tensor([0, 1]), torch.tensor([0, 2]), answer=5, wrong=5)
    with pytest.raises(ValueError, match="'AC'"):
        discovery.repeat_pair("AC")
    with pytest.raises(ValueError, match="18 different tokens"):
        discovery.repeat_pair("BB", period=6, d_vocab=18)


def test_a_pair_of_prompts_finds_its_answers(two_layers):
    clean, corrupt = torch.tensor([0, 3, 4, 3]), torch.tensor([0, 5, 4, 6])
    pair = discovery.Pair.of_prompts(two_layers, clean, corrupt)
    assert pair.answer.item() == 4  # after the earlier 3
    assert pair.wrong.item() == next(
        t for t in forward(two_layers, corrupt).logits[-1].argsort(descending=True).tolist() if t != 4
    )
    assert pair.reversed.clean.tolist() == [corrupt.tolist()]
    given = discovery.Pair.of_prompts(two_layers, clean, corrupt, answer=7, wrong=8)
    assert (given.answer.item(), given.wrong.item()) == (7, 8)


def test_renaming_moves_every_token_but_bos_and_keeps_repeats(two_layers):
    names = discovery.renaming(SIZES["d_vocab"], seed=3)
    assert names[0] == 0
    assert sorted(names.tolist()) == list(range(SIZES["d_vocab"]))
    assert (names[1:] != torch.arange(1, SIZES["d_vocab"])).all()
    prompt = torch.tensor([0, 3, 8, 3, 8, 3])
    pair = discovery.Pair.of_renamings(two_layers, prompt, count=4)
    assert torch.equal(pair.clean, prompt.expand(4, -1))
    assert (pair.corrupt[:, 0] == 0).all()
    same = prompt[:, None] == prompt
    assert ((pair.corrupt[:, :, None] == pair.corrupt[:, None]) == same).all()
    assert pair.answer.tolist() == [8] * 4
    assert torch.equal(pair.wrong, pair.corrupt[:, 2])


def test_equal_prompts_have_nothing_to_explain(two_layers, pair):
    same = replace(pair, corrupt=pair.clean)
    with pytest.raises(ValueError, match="nothing to explain"):
        next(discovery.faithfulness(two_layers, same, [torch.ones(1, dtype=torch.bool)]))


def test_models_with_an_mlp_and_wrong_circuits_are_refused(two_layers, pair):
    d, m = SIZES["d_model"], 8
    mlp = {
        "W_in": torch.zeros(2, d, m),
        "b_in": torch.zeros(2, m),
        "W_out": torch.zeros(2, m, d),
        "b_out": torch.zeros(2, d),
    }
    with pytest.raises(ValueError, match="MLP"):
        discovery.edge_effects(replace(two_layers, **mlp), pair)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        next(discovery.circuit_metrics(two_layers, pair, [torch.ones(3, dtype=torch.bool)]))


def test_a_circuit_is_written_as_json(two_layers, pair):
    effects = discovery.edge_effects(two_layers, pair)
    keep = discovery.strongest(effects, 5)
    edges, metrics = discovery.graph(two_layers), discovery.metrics(two_layers, pair)
    circuit = discovery.Circuit("tiny", {"clean": ["a"]}, 0.1, metrics, 0.9, edges, effects, keep)
    read = json.loads(circuit.to_json())
    assert {edge["label"] for edge in read["edges"]} == {str(e) for e, k in zip(edges, keep, strict=True) if k}
    assert set(read["nodes"]) == {name for edge in read["edges"] for name in (edge["source"], edge["target"])}
    label = read["edges"][0]["label"]
    index = list(map(str, edges)).index(label)
    assert read["edges"][0]["effect"] == pytest.approx(effects[index].item())
    assert read["edges"][0]["share"] == pytest.approx(effects[index].item() / (metrics[1] - metrics[0]))
