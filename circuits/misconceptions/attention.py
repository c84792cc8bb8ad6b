"""Heads: what they see, what their keys hold, where they look."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from circuits import copying, heads, induction
from circuits.misconceptions.base import PERIOD, Fact, Scene, often_said
from circuits.weights import Head, Weights, attention_scores, causal_mask, forward


@often_said(
    "Attention is softmax(x W_Q W_Kᵀ xᵀ / √d_head).",
    "Before the softmax, scores of later positions are set to −∞. Without this mask every position reads the future, "
    "and a language model could look up what it should predict. Here the prompt's last token is exchanged.",
    page="qk_ov_circuits",
)
def missing_mask(scene: Scene) -> tuple[Fact, ...]:
    tokens, n = scene.tokens, len(scene.tokens)
    changed = tokens.clone()
    changed[-1] = (changed[-1] + 1) % scene.weights.d_vocab

    def effect_on_the_past(mask: Bool[Tensor, "query key"]) -> float:
        before, after = (_resid_final(scene.weights, ids, mask)[:-1] @ scene.weights.W_U for ids in (tokens, changed))
        return (after - before).abs().amax().item() if n > 1 else 0.0

    return (
        Fact("largest change of an earlier logit, with mask", effect_on_the_past(causal_mask(n))),
        Fact("largest change of an earlier logit, without", effect_on_the_past(torch.zeros(n, n, dtype=torch.bool))),
    )


def _resid_final(
    weights: Weights, tokens: Int[Tensor, "pos"], mask: Bool[Tensor, "query key"]
) -> Float[Tensor, "pos d_model"]:
    """Return the last stream of the attention-only part, with any mask."""
    x = weights.W_E[tokens] + weights.W_pos[: len(tokens)]
    for W_Q, W_K, W_V, W_O in zip(weights.W_Q, weights.W_K, weights.W_V, weights.W_O, strict=True):
        pattern = attention_scores(x, W_Q, W_K).masked_fill(mask, -torch.inf).softmax(-1)
        x = x + (pattern @ x @ W_V @ W_O).sum(0)
    return x


@often_said(
    "The key of an induction head holds the token that follows its position.",
    "It holds the token before. Position j cannot know what follows it. The head looks for t_{j−1} = t_i, finds the "
    "place after the earlier copy, and copies what stands there. Here ideal heads follow each rule on random repeats.",
    page="induction_heads",
)
def what_the_key_holds(scene: Scene) -> tuple[Fact, ...]:
    tokens = scene.probe()
    return (
        Fact("second copy right, key = the token before, t_{j−1}", _ideal_head(tokens, 1)),
        Fact("second copy right, key = the token itself, t_j", _ideal_head(tokens, 0)),
        Fact("second copy right, key = the token after, t_{j+1}", _ideal_head(tokens, -1)),
    )


def _ideal_head(tokens: Int[Tensor, "batch pos"], shift: int) -> float:
    """Share of the second copy predicted by copying the last t_j, j < i, that has t_{j−shift} = t_i."""
    n = tokens.shape[1]
    keys = tokens.roll(shift, 1)
    match = (keys[:, None, :] == tokens[:, :, None]) & ~causal_mask(n) & ~torch.eye(n, dtype=torch.bool)
    last = torch.where(match, torch.arange(n), -1).amax(-1)
    copied = torch.where(last >= 0, tokens.gather(1, last.clamp_min(0)), -1)
    return (copied[:, PERIOD + 1 : -1] == tokens[:, PERIOD + 2 :]).float().mean().item()


@often_said(
    "An induction head looks at the earlier copy of the present token.",
    "It looks at the token after that copy. A head that looks at the copy itself is a duplicate-token head. "
    "Measured on random repeats: the best induction head's attention to both places.",
    page="induction_heads",
)
def after_the_copy(scene: Scene) -> tuple[Fact, ...]:
    pattern = forward(scene.weights, scene.probe()).pattern.mean(0)
    score = induction.induction_score(pattern, PERIOD)
    best = scene.best_head(score)
    return (
        Fact("head", str(best)),
        Fact("attention to the token after the copy", score[best].item()),
        Fact("attention to the copy itself", induction.duplicate_token_score(pattern, PERIOD)[best].item()),
    )


@often_said(
    "A previous-token head is recognised by its token-token QK table.",
    "That table does not know which tokens are neighbours: it is the same for every order. The stripe comes from the "
    "position vectors, W_pos W_QK W_posᵀ. Take them away and it is gone.",
    page="qk_ov_circuits",
)
def stripe_without_positions(scene: Scene) -> tuple[Fact, ...]:
    tokens, weights = scene.probe(), scene.weights
    scores = induction.previous_token_score(forward(weights, tokens).pattern[:, 0].mean(0))
    bare = replace(weights, W_pos=torch.zeros_like(weights.W_pos))
    best = int(scores.argmax())
    without = induction.previous_token_score(forward(bare, tokens).pattern[:, 0].mean(0))[best]
    return (
        Fact("head of layer 0", str(Head(0, best))),
        Fact("attention to the token before", scores[best].item()),
        Fact("the same without position vectors", without.item()),
    )


@often_said(
    "The previous-token head of the induction circuit copies the previous token to the output.",
    "Two jobs. A copying head maps a token's embedding to the same token's unembedding. A previous-token head writes "
    "into another part of the stream, for keys of a later head to read. Compare their copying scores, Σλ / Σ|λ| "
    "(one head says little, the mean over the induction heads more).",
    page="induction_heads",
)
def two_ways_to_move_a_token(scene: Scene) -> tuple[Fact, ...]:
    pattern = forward(scene.weights, scene.probe()).pattern.mean(0)
    previous = scene.best_head(induction.previous_token_score(pattern))
    inducing = induction.induction_score(pattern, PERIOD)
    found = [head for head in scene.weights.heads if inducing[head] >= induction.INDUCTION_THRESHOLD]
    found = found or [scene.best_head(inducing)]

    def score(head: Head) -> float:
        return copying.copying_score(copying.ov_eigenvalues(scene.weights, head)).item()

    return (
        Fact(f"best previous-token head ({previous})", score(previous)),
        Fact(f"induction heads ({', '.join(map(str, found))}), mean", sum(map(score, found)) / len(found)),
    )


@often_said(
    "Scores show which query wants a key the most.",
    "A row of scores may be moved up or down as a whole and the pattern does not change. So scores may be compared "
    "along a row, never between rows. Here every row of L0H0's scores on the prompt gets its own random constant.",
    page="qk_ov_circuits",
)
def scores_between_rows(scene: Scene) -> tuple[Fact, ...]:
    run = scene.prompt()
    scores = run.scores[0, 0].double()
    shifted = scores + 20 * torch.rand(len(scores), 1, dtype=torch.double, generator=torch.Generator().manual_seed(0))

    def strongest_row(scores: Tensor) -> int:
        return int(scores.amax(-1).argmax())

    return (
        Fact("query with the highest score, as trained", strongest_row(scores)),
        Fact("query with the highest score, rows moved", strongest_row(shifted)),
        Fact("largest change of the pattern", (scores.softmax(-1) - shifted.softmax(-1)).abs().max().item()),
    )


@often_said(
    "Everything can be read off the weights, without running the model.",
    "The tables can. The pattern depends on the prompt, and from the second layer on it depends on what earlier heads "
    "wrote. Here layer 0 is silenced: how much of the last layer's attention moves elsewhere on your prompt?",
    page="composition",
)
def patterns_need_a_run(scene: Scene) -> tuple[Fact, ...]:
    weights = scene.weights
    silent = heads.without_heads(weights, [head for head in weights.heads if head.layer == 0])
    before, after = scene.prompt().pattern[-1], forward(silent, scene.tokens).pattern[-1]
    moved = (before - after).abs().sum(-1).mean(-1) / 2
    return (
        Fact("layer looked at", weights.n_layers - 1),
        Fact("attention moved, mean over heads and queries", moved.mean().item()),
        Fact(f"most moved head ({Head(weights.n_layers - 1, int(moved.argmax()))})", moved.max().item()),
    )
