"""The residual stream, MLPs and LayerNorm: what adds, what does not, who reads what."""

import torch
from jaxtyping import Float
from torch import Tensor

from circuits import bigrams, residual
from circuits.composition import random_rotation
from circuits.misconceptions.base import Fact, Scene, often_said


def _normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


@often_said(
    "A component's importance is the length of what it writes.",
    "Lengths do not add: writes can cancel. Logits do add, exactly. Here the last position of your prompt: the "
    "lengths of all writes against the length of their sum, and their logits for the model's own prediction.",
    page="residual_stream",
)
def lengths_do_not_add(scene: Scene) -> tuple[Fact, ...]:
    run = scene.prompt()
    writes = residual.components(run).values[:, -1].double()
    token = run.logits[-1].argmax()
    return (
        Fact("sum of the lengths", writes.norm(dim=-1).sum().item()),
        Fact("length of the sum", writes.sum(0).norm().item()),
        Fact("sum of the logits", (writes @ scene.weights.W_U[:, token].double()).sum().item()),
        Fact("logit of the sum", run.logits[-1, token].item()),
    )


@often_said(
    "In the residual stream nothing is ever removed.",
    "No operation overwrites, but a component may read a direction and write its negative, and the sum is 0 there. "
    "The paper calls it memory management. Here a map −v vᵀ deletes one direction v of a random stream by adding.",
    page="mlp_memories",
)
def deletion_by_adding(scene: Scene) -> tuple[Fact, ...]:
    x = _normal(scene.weights.d_model)
    v = torch.nn.functional.normalize(_normal(scene.weights.d_model, seed=1), dim=0)
    written = -(x @ v) * v
    return (
        Fact("x · v before", (x @ v).item()),
        Fact("x · v after adding", ((x + written) @ v).item()),
        Fact("length of x before", x.norm().item()),
        Fact("length of x after adding", (x + written).norm().item()),
    )


@often_said(
    "The residual stream has no bottleneck.",
    "It is the bottleneck: everything speaks through its d_model dimensions, and a head reads and writes only d_head "
    "of them. The paper calls its bandwidth scarce.",
    page="residual_stream",
)
def narrow_stream(scene: Scene) -> tuple[Fact, ...]:
    weights = scene.weights
    return (
        Fact("dimensions of the stream", weights.d_model),
        Fact("token directions written into it", weights.d_vocab),
        Fact("position directions", weights.n_ctx),
        Fact("dimensions written by all heads", weights.n_layers * weights.n_heads * weights.d_head),
    )


@often_said(
    "The unembedding undoes the embedding.",
    "Together they should give the token that comes next. If W_U undid W_E, every token would predict itself.",
    page="zero_layer_bigrams",
)
def unembedding_is_no_inverse(scene: Scene) -> tuple[Fact, ...]:
    return (
        Fact("share of tokens whose own direct logit is highest", bigrams.predicts_itself(scene.weights)),
        Fact("antisymmetric share of W_E W_U (0 if W_U = W_Eᵀ)", bigrams.antisymmetric_share(scene.weights)),
    )


@often_said(
    "Zero layers hold a table of word pairs.",
    "Of token pairs, and not a table that could hold just anything: W_E W_U has rank d_model at most, so it "
    "approximates the log-frequencies, each row up to a constant.",
    page="zero_layer_bigrams",
)
def low_rank_table(scene: Scene) -> tuple[Fact, ...]:
    weights = scene.weights
    return (
        Fact("entries of a table of all pairs", weights.d_vocab**2),
        Fact("numbers in W_E and W_U", 2 * weights.d_vocab * weights.d_model),
        Fact("rank of W_E W_U in this model", bigrams.rank(weights)),
    )


@often_said(
    "The rows of W_in are the keys of an MLP.",
    "With x @ W_in neuron k computes x · W_in[:, k]: keys are columns. Values are the rows of W_out. In Geva's form "
    "f(x Kᵀ) V the rows of K are keys, because K = W_inᵀ. A square W_in hides the mistake: no shape error.",
    page="mlp_memories",
)
def keys_are_columns(scene: Scene) -> tuple[Fact, ...]:
    x, W_in, W_out = _normal(16), _normal(16, 16, seed=1), _normal(16, 16, seed=2)
    mlp = (x @ W_in).relu() @ W_out

    def error(keys: Float[Tensor, "neuron d_model"]) -> float:
        memories = sum((x @ key).relu() * value for key, value in zip(keys, W_out, strict=True))
        return (memories - mlp).abs().max().item()

    return (
        Fact("largest difference from the MLP, keys = columns", error(W_in.T)),
        Fact("largest difference from the MLP, keys = rows", error(W_in)),
    )


@often_said(
    "A block adds attention and MLP of the same x.",
    "That is the parallel block of some models (Pythia, GPT-NeoX). In the standard block the MLP reads the stream "
    "after attention has written. Here both on the same random block.",
    page="mlp_memories",
)
def parallel_block(scene: Scene) -> tuple[Fact, ...]:
    x, attention, W_in, W_out = _normal(5, 16), _normal(5, 16, seed=1), _normal(16, 64, seed=2), _normal(64, 16, seed=3)

    def mlp(x: Float[Tensor, "pos d_model"]) -> Float[Tensor, "pos d_model"]:
        return (x @ W_in / 4).relu() @ W_out / 8

    sequential, parallel = x + attention + mlp(x + attention), x + attention + mlp(x)
    return (
        Fact("length of the standard block's output", sequential.norm().item()),
        Fact("length of the parallel block's output", parallel.norm().item()),
        Fact("length of their difference", (sequential - parallel).norm().item()),
    )


@often_said(
    "LayerNorm can be folded away.",
    "Gain, bias and centring can. The division by the stream's standard deviation stays, and it is not linear: "
    "normalising a sum is not the sum of the normalised. Freeze the divisor and it is.",
    page="big_idea",
)
def layer_norm_is_not_linear(scene: Scene) -> tuple[Fact, ...]:
    a, b = _normal(64), _normal(64, seed=1)

    def normalise(x: Float[Tensor, "d_model"], like: Float[Tensor, "d_model"]) -> Float[Tensor, "d_model"]:
        return (x - x.mean()) / like.std(correction=0)

    whole = normalise(a + b, a + b)
    return (
        Fact("largest error of LN(a) + LN(b)", (normalise(a, a) + normalise(b, b) - whole).abs().max().item()),
        Fact(
            "the same with the divisor frozen",
            (normalise(a, a + b) + normalise(b, a + b) - whole).abs().max().item(),
        ),
    )


@often_said(
    "A coordinate carries a mix of features: that is superposition.",
    "Two different things. In a turned basis every coordinate is a mix, yet orthogonal features are read without any "
    "error along their own directions. Superposition is more features than dimensions: then reading must interfere.",
    page="superposition",
)
def turned_or_superposed(scene: Scene) -> tuple[Fact, ...]:
    d = 16
    orthogonal = random_rotation(d, torch.Generator().manual_seed(0), torch.double)
    crowded = torch.nn.functional.normalize(_normal(2 * d, d), dim=1)

    def interference(features: Float[Tensor, "feature d"]) -> float:
        return (features @ features.T).fill_diagonal_(0).abs().max().item()

    return (
        Fact(f"largest share of one coordinate in {d} turned features", orthogonal.abs().max().item()),
        Fact(f"largest interference, {d} features in {d} dimensions", interference(orthogonal)),
        Fact(f"largest interference, {2 * d} features in {d} dimensions", interference(crowded)),
    )


@often_said(
    "The 2021 paper analysed superposition: models store more features than dimensions.",
    "It uses the word in passing. The study is Toy Models of Superposition (2022), and its condition is missing here: "
    "features must be sparse. Two features, one dimension, loss of keeping one or both (antipodal, bias 0).",
    page="superposition",
)
def superposition_needs_sparsity(scene: Scene) -> tuple[Fact, ...]:
    def keep_one(p: float) -> float:
        return p / 3 - p**2 / 4

    def keep_both(p: float) -> float:
        return p**2 / 3

    return (
        Fact("dense (always active): keep one", keep_one(1.0)),
        Fact("dense (always active): keep both", keep_both(1.0)),
        Fact("sparse (active 1 time in 10): keep one", keep_one(0.1)),
        Fact("sparse (active 1 time in 10): keep both", keep_both(0.1)),
        Fact("both pay below density", 4 / 7),
    )
