"""Zero layers: ``logits = W_E[token] @ W_U``, a low-rank table of bigram log-likelihoods.

With no layer between them, embedding and unembedding are the whole model, and row ``a`` of the direct path
``W_E W_U`` holds everything it knows about token ``a``.  The loss is least where ``softmax`` of that row is the
frequency of what follows ``a`` in the corpus.  So the matrix can be held against plain counts, token by token
(:func:`compare_row`) or all at once (:func:`fit`).

Two limits are built in.  The rank is at most ``d_model``, far below ``d_vocab``: the table is an approximation.
And a constant added to a row changes no probability, so counts fix each row only up to that constant.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from circuits.counts import BigramCounts, unigram_probs
from circuits.weights import Weights

ROWS_AT_ONCE = 512
"""Rows of the d_vocab × d_vocab table that exist at the same time."""


def direct_logits(weights: Weights, present: Int[Tensor, "*n"]) -> Float[Tensor, "*n d_vocab"]:
    """Return rows of the direct path: ``W_E[present] @ W_U``.

    In a zero-layer model these are the logits after ``present``, whatever stood before it.  In a deeper model they
    are one path of many.  Source: Elhage et al. 2021, "Zero-Layer Transformers".
    """
    return weights.W_E[present] @ weights.W_U


def following_probs(table: BigramCounts, present: int) -> Float[Tensor, "d_vocab"]:
    """Return how often each token follows ``present`` in the corpus, as probabilities (float64, unsmoothed).

    Raises:
        ValueError: nothing ever followed ``present``, so there is no distribution.
    """
    row = table.row(present).double()
    if row.sum() == 0:
        raise ValueError(f"token {present} is never followed by anything in the corpus: there are no counts to compare")
    return row / row.sum()


def kl(p: Float[Tensor, "*row d_vocab"], log_q: Float[Tensor, "*row d_vocab"]) -> Float[Tensor, "*row"]:
    """Return ``KL(p ‖ q) = Σ_b p_b (log p_b − log q_b)`` in nats, q given by its logarithm.

    Terms with ``p_b = 0`` are 0, so unsmoothed counts may stand on the left.  The other direction,
    ``KL(model ‖ counts)``, is infinite as soon as the model gives any probability to a pair never seen.
    """
    return (-torch.special.entr(p) - torch.where(p > 0, p * log_q, 0)).sum(-1)


@dataclass(frozen=True)
class RowComparison:
    """What follows one token: by the counts and by the model, for pairs that were seen, most frequent first."""

    present: int
    following: Int[Tensor, "seen"]
    counts: Int[Tensor, "seen"]
    corpus: Float[Tensor, "seen"]
    model: Float[Tensor, "seen"]
    kl: float
    unseen_mass: float
    """What the model gives to tokens that never followed ``present``."""

    @property
    def n(self) -> int:
        """How often ``present`` was followed by anything: how far the counts can be trusted."""
        return int(self.counts.sum())


@torch.inference_mode()
def compare_row(weights: Weights, table: BigramCounts, present: int) -> RowComparison:
    """Hold ``softmax(W_E[present] W_U)`` against the counts of what follows ``present``.

    Raises:
        ValueError: nothing ever followed ``present``.
    """
    corpus = following_probs(table, present)
    log_model = direct_logits(weights, torch.tensor(present)).double().log_softmax(-1)
    following = corpus.argsort(descending=True, stable=True)[: int((corpus > 0).sum())]
    model = log_model.exp()
    return RowComparison(
        present=present,
        following=following,
        counts=table.row(present)[following],
        corpus=corpus[following],
        model=model[following],
        kl=kl(corpus, log_model).item(),
        unseen_mass=model[corpus == 0].sum().item(),
    )


@dataclass(frozen=True)
class Fit:
    """How well a table predicts the corpus it was counted on, in nats per pair."""

    cross_entropy: float
    entropy: float

    @property
    def kl(self) -> float:
        """Mean of ``KL(counts ‖ model)`` over the corpus: every row weighs as often as its token occurs."""
        return self.cross_entropy - self.entropy


def conditional_entropy(table: BigramCounts) -> float:
    """Return ``H(next | present)`` of the counts in nats: on the counted text no bigram table has a lower loss.

    .. math:: -\\sum_{ab} \\frac{c_{ab}}{N} \\log \\frac{c_{ab}}{c_a}, \\qquad a \\ne \\mathrm{BOS}
    """
    present, counts = table.pairs // table.d_vocab, table.counts.double()
    totals = torch.zeros(table.d_vocab, dtype=torch.double).index_add_(0, present, counts)
    surprise = (totals[present] / counts).log()
    inside = present != 0  # row 0 holds the unigram counts: BOS is not part of the text
    return ((counts * surprise)[inside].sum() / counts[inside].sum()).item()


@torch.inference_mode()
def fit(weights: Weights, table: BigramCounts) -> Fit:
    """Return the loss of ``softmax(W_E W_U)`` on all pairs of the corpus, and the least loss possible there.

    The whole table is walked through in blocks of rows; it never exists at once.
    """
    loss, n = 0.0, 0
    for rows in torch.arange(1, table.d_vocab).split(ROWS_AT_ONCE):
        edges = torch.stack([rows[0], rows[-1] + 1]) * table.d_vocab
        first, last = torch.searchsorted(table.pairs, edges).tolist()
        log_probs = direct_logits(weights, rows).log_softmax(-1).flatten()
        counts = table.counts[first:last].double()
        loss -= (counts * log_probs[table.pairs[first:last] - edges[0]]).sum().item()
        n += int(counts.sum())
    return Fit(cross_entropy=loss / n, entropy=conditional_entropy(table))


def unigram_fit(table: BigramCounts) -> Fit:
    """Return the loss on all pairs of a table whose rows are all alike: the (smoothed) unigram probabilities.

    Its KL is what a model gains at most by looking at the present token at all.
    """
    inside = table.pairs >= table.d_vocab
    counts, following = table.counts[inside].double(), table.pairs[inside] % table.d_vocab
    loss = -(counts * unigram_probs(table).log()[following]).sum() / counts.sum()
    return Fit(cross_entropy=loss.item(), entropy=conditional_entropy(table))


@torch.inference_mode()
def direct_loss(weights: Weights, windows: Int[Tensor, "window pos"]) -> float:
    """Return the loss of ``softmax(W_E W_U)`` on windows of text, in nats per predicted token."""
    present, at = windows[:, :-1].unique(return_inverse=True)  # each row once, however often its token occurs
    log_probs = direct_logits(weights, present).log_softmax(-1)
    return -log_probs[at.flatten(), windows[:, 1:].flatten()].double().mean().item()


@torch.inference_mode()
def singular_values(weights: Weights) -> Float[Tensor, "d_model"]:
    """Return the singular values of ``W_E W_U`` that can differ from 0, largest first, in float64.

    With ``W_E = Q R`` and ``W_Uᵀ = Q' R'`` they are those of the d_model × d_model matrix ``R R'ᵀ``.
    """
    R_E, R_U = (torch.linalg.qr(factor.double(), mode="r").R for factor in (weights.W_E, weights.W_U.T))
    return torch.linalg.svdvals(R_E @ R_U.T)


def rank(weights: Weights) -> int:
    """Return the rank of ``W_E W_U``: singular values above NumPy's usual cut, ``σ_max · d_vocab · ε``."""
    sigma = singular_values(weights)
    return int((sigma > sigma[0] * weights.d_vocab * torch.finfo(sigma.dtype).eps).sum())


def shift_error(logits: Float[Tensor, "*n d_vocab"], constant: float) -> float:
    """Return ``max |softmax(logits + constant) − softmax(logits)|``: rounding, since a row constant is a gauge."""
    return ((logits + constant).softmax(-1) - logits.softmax(-1)).abs().max().item()


@torch.inference_mode()
def antisymmetric_share(weights: Weights) -> float:
    """Return how much of ``M = W_E W_U`` flips its sign when the two tokens change places.

    .. math:: \\frac{\\|(M - M^\\top)/2\\|_F^2}{\\|M\\|_F^2} = \\tfrac12 - \\frac{\\mathrm{tr}(M M)}{2\\,\\|M\\|_F^2}

    0 is symmetric, ½ is what unrelated factors give, 1 is antisymmetric.  The means of W_E and of W_U over the
    vocabulary are taken off first: row constants mean nothing, and how frequent a token is says nothing of order.
    The trace may go round the cycle; the norm may not, and comes from the two Gram matrices.
    """
    W_E = weights.W_E.double() - weights.W_E.double().mean(0)
    W_U = weights.W_U.double() - weights.W_U.double().mean(1, keepdim=True)
    inner = W_U @ W_E
    trace_of_square, norm_squared = (inner * inner.T).sum(), ((W_E.T @ W_E) * (W_U @ W_U.T)).sum()
    return (0.5 - trace_of_square / (2 * norm_squared)).item()


def order_matters(table: BigramCounts) -> float:
    """Return which share of all pairs would have to be turned round for ``ab`` to be as frequent as ``ba``.

    .. math:: \\frac{1}{2N} \\sum_{a<b} |c_{ab} - c_{ba}|

    Half the total variation between the counts of pairs and their transpose, since turning one pair round changes
    both: 0 for a text without direction, ½ where no pair ever occurs in both orders.
    """
    inside = table.pairs >= table.d_vocab
    pairs, counts = table.pairs[inside], table.counts[inside].double()
    turned = table.of(pairs % table.d_vocab, pairs // table.d_vocab)
    return ((counts - turned).clamp_min(0).sum() / (2 * counts.sum())).item()


@torch.inference_mode()
def predicts_itself(weights: Weights) -> float:
    """Return the share of tokens whose highest direct logit is their own.

    It would be 1 if the unembedding undid the embedding; a bigram table wants the *next* token there.
    """
    blocks = torch.arange(weights.d_vocab).split(ROWS_AT_ONCE)
    return sum(int((direct_logits(weights, rows).argmax(-1) == rows).sum()) for rows in blocks) / weights.d_vocab
