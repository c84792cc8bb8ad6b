"""One attention head taken apart: *where* it looks (QK) and *what* it then says (OV).

A head never uses its four matrices one by one.  Two products are all that the rest of the model can see:

* ``W_QK = W_Q @ W_Kᵀ`` decides where information is taken from: score = x_query W_QK x_keyᵀ / √d_head;
* ``W_OV = W_V @ W_O`` decides what is moved once it is: output = Σ_key A[query, key] x_key W_OV.

Both are ``[d_model, d_model]`` of rank at most ``d_head``, so they stay factored
(``transformer_lens.FactoredMatrix``), and so do the circuits over tokens between the embeddings, which have
``d_vocab²`` entries: a row or a column of one costs ``d_vocab · d_head`` multiplications.

Elhage et al. 2021, "Attention heads as information movement" and "One-layer attention-only transformers".
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformer_lens import FactoredMatrix

from circuits.weights import Head, Run, Weights, causal_mask

# ── The two matrices and the two circuits ────────────────────────────────────────────────────────────────


def W_QK(weights: Weights, head: Head) -> FactoredMatrix:
    """Return ``W_Q @ W_Kᵀ``, [d_model, d_model]: rows read the query, columns the key.  Not divided by √d_head."""
    return FactoredMatrix(weights.W_Q[head], weights.W_K[head].T)


def W_OV(weights: Weights, head: Head) -> FactoredMatrix:
    """Return ``W_V @ W_O``, [d_model, d_model]: a row vector goes in at the left and comes out at the right."""
    return FactoredMatrix(weights.W_V[head], weights.W_O[head])


def qk_circuit(weights: Weights, head: Head) -> FactoredMatrix:
    """Return ``W_E W_QK W_Eᵀ / √d_head``, [destination token, source token]: attention scores between tokens.

    Rows cannot be compared with one another: softmax forgets whatever a whole row has in common
    (:func:`centred_qk_circuit`).  Above layer 0 this is the direct term only; heads below add others.
    """
    return weights.W_E @ W_QK(weights, head) @ weights.W_E.T * weights.d_head**-0.5


def centred_qk_circuit(weights: Weights, head: Head) -> FactoredMatrix:
    """Return the QK circuit with the mean of every row (destination) taken away.

    Adding any function of the destination alone to the scores leaves the pattern as it was, so only the
    differences within a row mean anything.  A row mean over keys is the score of the mean key, hence
    centring the ``d_vocab`` keys is enough.
    """
    circuit = qk_circuit(weights, head)
    return FactoredMatrix(circuit.A, circuit.B - circuit.B.mean(-1, keepdim=True))


def ov_circuit(weights: Weights, head: Head) -> FactoredMatrix:
    """Return ``W_E W_OV W_U``, [source token, output token]: logits added where the source is fully attended."""
    return weights.W_E @ W_OV(weights, head) @ weights.W_U


def summed_ov_circuit(weights: Weights, heads: Iterable[Head]) -> FactoredMatrix:
    """Return the sum of several heads' OV circuits, still factored: rank at most the number of heads · d_head.

    OV circuits of heads that attend alike add up; QK circuits do not, a softmax lies between them.
    """
    parts = [W_OV(weights, head) for head in heads]
    if not parts:
        raise ValueError("no head was given: there is nothing to sum")
    return FactoredMatrix(
        weights.W_E @ torch.cat([part.A for part in parts], dim=-1),
        torch.cat([part.B for part in parts], dim=0) @ weights.W_U,
    )


def row(circuit: FactoredMatrix, token: int) -> Float[Tensor, "columns"]:
    """Return one row of a factored circuit without building the others."""
    return circuit.A[_known(token, circuit.A.shape[0])] @ circuit.B


def column(circuit: FactoredMatrix, token: int) -> Float[Tensor, "rows"]:
    """Return one column of a factored circuit without building the others."""
    return circuit.A @ circuit.B[:, _known(token, circuit.B.shape[1])]


def _known(token: int, d_vocab: int) -> int:
    if not 0 <= token < d_vocab:
        raise ValueError(f"token {token} is not in the vocabulary 0 … {d_vocab - 1}")
    return token


class Tokens(NamedTuple):
    """Tokens in order of a value, largest first."""

    ids: Int[Tensor, "k"]
    values: Float[Tensor, "k"]


def top_tokens(values: Float[Tensor, "d_vocab"], k: int = 10) -> Tokens:
    """Return the ``k`` tokens with the largest values."""
    top = values.topk(min(k, len(values)))
    return Tokens(top.indices, top.values)


# ── What a head does on a prompt ─────────────────────────────────────────────────────────────────────────


@torch.inference_mode()
def head_output(weights: Weights, run: Run, head: Head) -> Float[Tensor, "pos d_model"]:
    """Return ``A X W_OV``: what the head writes, from its pattern, the stream it reads and the product alone."""
    return run.pattern[head] @ run.resid_pre[head.layer] @ W_OV(weights, head).AB


@torch.inference_mode()
def value_norms(weights: Weights, run: Run) -> Float[Tensor, "layer head key"]:
    """Return ‖x_key W_V W_O‖₂, the length of what each position would contribute if fully attended."""
    return (run.resid_pre.unsqueeze(-3) @ weights.W_V @ weights.W_O).norm(dim=-1)


@torch.inference_mode()
def value_weighted_pattern(weights: Weights, run: Run) -> Float[Tensor, "layer head query key"]:
    """Return A[query, key] · ‖x_key W_V W_O‖₂: how long a vector each source really sends.

    The norm is Euclidean, in the residual stream.  A source that is attended only because a head has to
    look somewhere (often BOS) goes pale here.
    """
    return run.pattern * value_norms(weights, run).unsqueeze(-2)


@torch.inference_mode()
def raw_scores(weights: Weights, run: Run, head: Head) -> Float[Tensor, "query key"]:
    """Return q·k/√d_head for every pair, also where a query would see the future."""
    x = run.resid_pre[head.layer]
    return (x @ weights.W_Q[head]) @ (x @ weights.W_K[head]).T * weights.d_head**-0.5


def masked(scores: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query key"]:
    """Return the scores with −∞ wherever the key comes after the query."""
    return scores.masked_fill(causal_mask(scores.shape[-1]), -torch.inf)


@torch.inference_mode()
def attention(
    weights: Weights, run: Run, head: Head, divisor: float, hidden: Bool[Tensor, "query key"]
) -> Float[Tensor, "query key"]:
    """Return softmax(q·k / divisor) over the keys that are not ``hidden``.

    The model's own pattern has the divisor √d_head and hides what comes after the query.
    """
    scores = raw_scores(weights, run, head) * weights.d_head**0.5 / divisor
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def centre_visible(scores: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query key"]:
    """Return the scores with each row's mean over the keys it may see taken away, and 0 above the diagonal.

    What is left is all that the softmax of a row can notice.
    """
    visible = ~causal_mask(scores.shape[-1])
    mean = scores.masked_fill(~visible, 0).sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)
    return (scores - mean).masked_fill(~visible, 0)


def future_attention(pattern: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query"]:
    """Return how much of each row's attention lies above the diagonal: exactly 0 with the mask."""
    return pattern.triu(1).sum(-1)


def entropy(pattern: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads query"]:
    """Return −Σ A ln A of each row in nats: 0 looks at one token, ln n at n tokens alike."""
    return torch.special.entr(pattern).sum(-1)


def attention_by_offset(pattern: Float[Tensor, "*heads query key"]) -> Float[Tensor, "*heads offset"]:
    """Return the mean attention to the token ``offset`` places back, offset 0 … n−2.

    BOS is left out as a source, since heads rest on it; so offset 1 is the previous-token score.
    """
    n = pattern.shape[-1]
    return torch.stack([pattern.diagonal(-k, -2, -1)[..., 1:].mean(-1) for k in range(n - 1)], dim=-1)


# ── Tokens and positions in the scores ───────────────────────────────────────────────────────────────────


class ScoreSplit(NamedTuple):
    """The four parts of a layer-0 score, each [query, key] and divided by √d_head; destination named first."""

    tok_tok: Float[Tensor, "query key"]
    tok_pos: Float[Tensor, "query key"]
    pos_tok: Float[Tensor, "query key"]
    pos_pos: Float[Tensor, "query key"]

    @property
    def total(self) -> Float[Tensor, "query key"]:
        return self.tok_tok + self.tok_pos + self.pos_tok + self.pos_pos


@torch.inference_mode()
def score_split(weights: Weights, run: Run, head: Head) -> ScoreSplit:
    """Split (e + p) W_QK (e + p)ᵀ / √d_head into token and position parts; no mask.

    Raises:
        ValueError: the head is above layer 0, where the stream holds more than tokens and positions.
    """
    if head.layer != 0:
        raise ValueError(f"{head} reads what layer 0 wrote: its scores have more than four parts")
    qk = W_QK(weights, head) * weights.d_head**-0.5
    parts = (run.embed, run.pos_embed)
    return ScoreSplit(*(query @ qk.A @ (key @ qk.B.T).T for query in parts for key in parts))


@torch.inference_mode()
def positional_circuit(weights: Weights, head: Head) -> Float[Tensor, "query key"]:
    """Return ``W_pos W_QK W_posᵀ / √d_head``, [n_ctx, n_ctx]: where a previous-token head's stripe lives."""
    return (weights.W_pos @ W_QK(weights, head) @ weights.W_pos.T * weights.d_head**-0.5).AB


# ── Singular directions: what a head reads and what it writes ────────────────────────────────────────────


class Direction(NamedTuple):
    """One singular direction of a head: its gain, and the tokens at both ends of its two sides.

    The sign of a singular pair is arbitrary, so both ends are shown: what is read at the plus end is
    written (or matched) at the plus end.
    """

    gain: float
    left_plus: Tokens
    left_minus: Tokens
    right_plus: Tokens
    right_minus: Tokens


@torch.inference_mode()
def ov_directions(weights: Weights, head: Head, n: int = 4, k: int = 6) -> list[Direction]:
    """Return the ``n`` strongest directions of W_OV: left singular vectors read, right ones write.

    In row vectors x W_OV = Σ (x·u_i) s_i v_iᵀ, so tokens are placed on the reading side by W_E u_i and on
    the writing side by v_iᵀ W_U.  (The paper's W_OV is the transpose: there the sides change places.)
    """
    return _directions(W_OV(weights, head), weights.W_E, weights.W_U.T, n, k)


@torch.inference_mode()
def qk_directions(weights: Weights, head: Head, n: int = 4, k: int = 6) -> list[Direction]:
    """Return the ``n`` strongest directions of W_QK/√d_head: left is the query's side, right the key's."""
    return _directions(W_QK(weights, head) * weights.d_head**-0.5, weights.W_E, weights.W_E, n, k)


def _directions(
    matrix: FactoredMatrix,
    left: Float[Tensor, "d_vocab d_model"],
    right: Float[Tensor, "d_vocab d_model"],
    n: int,
    k: int,
) -> list[Direction]:
    U, S, V = matrix.U, matrix.S, matrix.V
    sides = [(left @ U[:, i], right @ V[:, i]) for i in range(min(n, len(S)))]
    return [
        Direction(S[i].item(), top_tokens(a, k), top_tokens(-a, k), top_tokens(b, k), top_tokens(-b, k))
        for i, (a, b) in enumerate(sides)
    ]


# ── The same head in other coordinates, and without a head ───────────────────────────────────────────────


def random_gauge(d_head: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Float[Tensor, "d_head d_head"]:
    """Return a random invertible matrix, far from a rotation and yet well conditioned (condition number 4)."""
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(d_head, d_head, generator=generator, dtype=dtype)).Q for _ in "ab")
    return left * torch.logspace(-1, 1, d_head, base=2, dtype=dtype) @ right


def reparametrise(weights: Weights, R: Float[Tensor, "d_head d_head"]) -> Weights:
    """Return W_Q R, W_K R⁻ᵀ, W_V R, R⁻¹ W_O: other queries, keys and values, the same model.

    ``W_QK`` and ``W_OV`` are what a head is; how a product is split between its two factors is superficial.
    """
    inverse = torch.linalg.inv(R)
    return replace(
        weights, W_Q=weights.W_Q @ R, W_K=weights.W_K @ inverse.T, W_V=weights.W_V @ R, W_O=inverse @ weights.W_O
    )


def without_heads(weights: Weights, heads: Iterable[Head]) -> Weights:
    """Return the weights with the given heads writing nothing: their W_O is zero."""
    W_O = weights.W_O.clone()
    for head in heads:
        W_O[head] = 0
    return replace(weights, W_O=W_O)
