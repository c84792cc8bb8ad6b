"""How an induction head works: its eigenvalue scores, and the terms of its attention scores.

Two checks of one mechanism.  From the weights alone (:func:`mechanism`): a key that carries the token
before it must attract queries at that same token (*matching*), and the token looked at must be raised
(*copying*); both are eigenvalue scores.  On a prompt (:func:`score_components`): a head's score is the sum
over pairs (what wrote the query, what wrote the key), and :func:`formation` asks which pair makes the
stripe.  Two layers can do induction in two ways, and which one a model learnt differs from seed to seed:

* **K-composition** with a previous-token head: the key at j carries ``t[j−1]``, the query its own token;
* **Q-composition** with a duplicate-token head: the query has learnt where its token stood before, and
  looks one position further on.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

from circuits.copying import Null, copying_null, copying_score, ov_eigenvalues
from circuits.weights import Head, Run, Weights


@dataclass(frozen=True)
class Mechanism:
    """Two eigenvalue scores for every head above ``previous``; an induction head is high in both."""

    previous: Head
    heads: tuple[Head, ...]
    matching: Float[Tensor, "head"]
    """Does a key that carries the token t (through ``previous``) attract queries at the token t?"""
    copying: Float[Tensor, "head"]
    """Does the head raise the logit of the token it looks at?"""
    matching_null: Null
    copying_null: Null


@torch.inference_mode()
def mechanism(weights: Weights, previous: Head, draws: int = 200, seed: int = 0) -> Mechanism:
    """Return the eigenvalue scores of the K-composition term and of the OV circuit, with their nulls.

    .. math:: W_E W_Q^{h} W_K^{h\\top} (W_V^{p} W_O^{p})^\\top W_E^\\top \\quad [query token, key's previous token]

    Its non-zero eigenvalues are those of the [d_head, d_head] product ``(W_Kᵀ W_Oᵀ)(W_Vᵀ W_Eᵀ W_E W_Q)``.
    Source: Elhage et al. 2021, "Checking the mechanistic theory".

    Raises:
        ValueError: no layer lies above ``previous``.
    """
    heads = tuple(head for head in weights.heads if head.layer > previous.layer)
    if not heads:
        raise ValueError(f"no head lies above {previous}: nothing can compose with it")
    layers = slice(previous.layer + 1, None)
    gram = weights.W_E.mT @ weights.W_E
    W_V, W_O = weights.W_V[previous], weights.W_O[previous]
    matching = copying_score(matching_eigenvalues(gram, weights.W_Q[layers], weights.W_K[layers], W_V, W_O))
    return Mechanism(
        previous=previous,
        heads=heads,
        matching=matching.flatten(),
        copying=torch.stack([copying_score(ov_eigenvalues(weights, head)) for head in heads]),
        matching_null=_matching_null(weights, gram, draws, seed),
        copying_null=copying_null(weights, draws, seed),
    )


def matching_eigenvalues(
    gram: Float[Tensor, "d_model d_model"],
    W_Q: Float[Tensor, "*head d_model d_head"],
    W_K: Float[Tensor, "*head d_model d_head"],
    W_V: Float[Tensor, "*previous d_model d_head"],
    W_O: Float[Tensor, "*previous d_head d_model"],
) -> Complex[Tensor, "*head d_head"]:
    """Return the non-zero eigenvalues of the K-composition term; ``gram`` is ``W_Eᵀ W_E``."""
    return torch.linalg.eigvals((W_O @ W_K).mT @ (W_V.mT @ gram @ W_Q))


def _matching_null(weights: Weights, gram: Tensor, draws: int, seed: int) -> Null:
    """Score random pairs of heads between this model's embeddings."""
    generator = torch.Generator().manual_seed(seed)
    shape = (4, draws, weights.d_model, weights.d_head)
    W_Q, W_K, W_V, W_O = torch.randn(shape, generator=generator, dtype=gram.dtype)
    scores = copying_score(matching_eigenvalues(gram, W_Q, W_K, W_V, W_O.mT))
    return Null(scores.mean().item(), scores.std().item())


# --- the terms of the scores, on a prompt -------------------------------------------------------------------


@dataclass(frozen=True)
class ScoreComponents:
    """``scores = Σ_ab terms[a, b]``: component ``a`` of the stream on the query's side, ``b`` on the key's."""

    head: Head
    names: tuple[str, ...]
    """``token``, ``position``, then every earlier head."""
    terms: Float[Tensor, "query_component key_component query key"]

    def spread(self) -> Float[Tensor, "query_component key_component"]:
        """Return the standard deviation of each term over the visible (query, key) pairs: what it can decide."""
        n = self.terms.shape[-1]
        return self.terms[..., torch.ones(n, n, dtype=torch.bool).tril()].std(-1, correction=0)

    def margin(self, targets: Bool[Tensor, "query key"]) -> Float[Tensor, "query_component key_component"]:
        """Return by how much each term lifts the targets above the other visible keys (log odds, in nats).

        The mean over queries with a target of (mean at the targets − mean at the other keys).  It is
        linear, so the margins of all terms sum to the margin of the head's scores.
        """
        visible = torch.ones_like(targets).tril()
        others = visible & ~targets
        queries = targets.any(-1) & others.any(-1)
        if not queries.any():
            raise ValueError("nothing repeats in these tokens: there is no stripe to explain")

        def mean(where: Tensor) -> Tensor:
            return (self.terms * where).sum(-1)[..., queries] / where.sum(-1)[queries]

        return (mean(targets) - mean(others)).mean(-1)


@torch.inference_mode()
def score_components(weights: Weights, run: Run, head: Head) -> ScoreComponents:
    """Split a head's scores by what wrote the query and what wrote the key.

    .. math:: S_{ab} = (y_a W_Q)(y_b W_K)^\\top / \\sqrt{d_{head}}, \\qquad y \\in \\{embed, pos, heads\\ below\\}

    For one prompt (no batch).  The terms are not masked; under the mask they sum to ``run.scores[head]``.
    Source: Elhage et al. 2021, "Path expansion of attention scores QK circuit".

    Raises:
        ValueError: the model has an MLP below the head, whose part is no head's.
    """
    if run.mlp_out is not None and head.layer > 0:
        raise ValueError(f"an MLP writes below {head}: its scores are not a sum over heads")
    below = [other for other in weights.heads if other.layer < head.layer]
    stream = torch.stack([run.embed, run.pos_embed, *(run.head_out[other] for other in below)])
    q, k = stream @ weights.W_Q[head], stream @ weights.W_K[head]
    return ScoreComponents(
        head=head,
        names=("token", "position", *map(str, below)),
        terms=q.unsqueeze(1) @ k.mT / weights.d_head**0.5,
    )


@dataclass(frozen=True)
class Formation:
    """Which composition makes a head's stripe, by the margins of its score terms."""

    head: Head
    margins: dict[str, float]
    """Nats of margin from ``"K"`` (a head below wrote the key), ``"Q"`` (… the query), ``"Q and K"``, ``"neither"``."""
    kind: str
    """The one with the largest margin."""
    partner: Head | None
    """The head below that carries most of that margin; None if no head does."""

    @property
    def share(self) -> float:
        """The winner's part of the head's whole margin; above 1 if other terms work against it."""
        return self.margins[self.kind] / sum(self.margins.values())

    def __str__(self) -> str:
        return {
            "K": f"K-composition with {self.partner}, which writes the token before into the key",
            "Q": f"Q-composition with {self.partner}, which tells the query where its token stood before",
            "Q and K": f"Q- and K-composition at once, most of all with {self.partner}",
            "neither": "no composition: token and position alone make the stripe",
        }[self.kind]


def formation(weights: Weights, components: ScoreComponents, targets: Bool[Tensor, "query key"]) -> Formation:
    """Decide how an induction head was built: K-composition, Q-composition, both at once, or neither."""
    below = [head for head in weights.heads if head.layer < components.head.layer]
    margin = components.margin(targets)
    direct, heads = slice(0, 2), slice(2, None)
    parts = {
        "K": margin[direct, heads],
        "Q": margin[heads, direct],
        "Q and K": margin[heads, heads],
        "neither": margin[direct, direct],
    }
    margins = {kind: part.sum().item() for kind, part in parts.items()}
    kind = max(margins, key=margins.get)
    if kind == "neither":
        return Formation(components.head, margins, kind, None)
    # The side on which heads stand; for "Q and K" the key's side, where the shift by one is made.
    side = parts[kind].sum(1 if kind == "Q" else 0)
    return Formation(components.head, margins, kind, below[side.argmax()])
