"""The bugs of a skip-trigram table: two good trigrams of one head and one source force two more.

A head's effect is a product, f(source, destination, out) = f₁(source, destination) · f₂(source, out): QK
does not know what will be said, OV does not know who is asking.  For one source the table over
(destination, out) therefore has rank 1, and every 2×2 of it has determinant 0: whoever wants
``keep … in → mind`` and ``keep … at → bay`` from one head also gets ``keep … in → bay`` and
``keep … at → mind``, and the bad pair is, in geometric mean, exactly as strong as the good one.

In a forward pass f₁ is the attention the source gets, a softmax over everything else in the context, instead
of the score; but that too is one number per destination, so the rank stays 1 (:func:`on_prompt`).
Elhage et al. 2021, "Skip-trigram bugs".
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from circuits.counts import BigramCounts
from circuits.skip_trigrams import Tables, row_maxima, top_columns
from circuits.weights import Head, Weights, forward

GOOD_COUNT = 20
"""``destination → out`` seen this often in the corpus, or oftener, is taken for good; never seen, for bad."""


class Bug(NamedTuple):
    """Good are (destinations[0], outs[0]) and (destinations[1], outs[1]); forced are the two others."""

    source: int
    destinations: tuple[int, int]
    outs: tuple[int, int]
    table: Float[Tensor, "destination out"]
    """f₁ · f₂ in float64: centred QK score times OV logit."""

    @property
    def interaction(self) -> float:
        """The determinant of the table: good · good − bad · bad, zero whatever the weights."""
        return interaction(self.table)


def interaction(table: Float[Tensor, "destination out"]) -> float:
    """Return t₀₀ t₁₁ − t₀₁ t₁₀ of a 2×2 table."""
    return (table[0, 0] * table[1, 1] - table[0, 1] * table[1, 0]).item()


@torch.inference_mode()
def bug(tables: Tables, source: int, destinations: tuple[int, int], outs: tuple[int, int]) -> Bug:
    """Return the 2×2 table that two trigrams of one source span, from the head's two tables."""
    f1 = tables.qk.A[source].double() @ tables.qk.B[:, destinations].double()
    f2 = tables.ov.A[source].double() @ tables.ov.B[:, outs].double()
    return Bug(source, destinations, outs, torch.outer(f1, f2))


def pair_counts(bug: Bug, counts: BigramCounts) -> Int[Tensor, "destination out"]:
    """Return how often each ``destination → out`` of the table occurs in the corpus, whatever stood before."""
    return counts.of(*torch.meshgrid(torch.tensor(bug.destinations), torch.tensor(bug.outs), indexing="ij"))


@torch.inference_mode()
def on_prompt(weights: Weights, head: Head, bug: Bug) -> Float[Tensor, "destination out"]:
    """Return what the head adds to the logits in earnest: A[destination, source] · OV[source, out].

    Two prompts, ``BOS source destination``, one for each destination; the head must be in layer 0.
    """
    tokens = torch.tensor([[0, bug.source, destination] for destination in bug.destinations])
    attention = forward(weights, tokens).pattern[:, head.layer, head.head, 2, 1]
    stream = weights.W_E[bug.source] + weights.W_pos[1]
    return torch.outer(attention, stream @ weights.W_V[head] @ weights.W_O[head] @ weights.W_U[:, bug.outs])


@torch.inference_mode()
def strongest_sources(tables: Tables, n: int = 256) -> Int[Tensor, "n"]:
    """Return the ``n`` sources whose best skip-trigram has the largest QK · OV."""
    rows = torch.arange(tables.qk.A.shape[0])
    strength = row_maxima(tables.qk, rows).clamp_min(0) * row_maxima(tables.ov, rows).clamp_min(0)
    return strength.topk(min(n, len(rows))).indices


@torch.inference_mode()
def worst_bugs(tables: Tables, counts: BigramCounts, sources: Int[Tensor, "n"], width: int = 10) -> list[Bug]:
    """Search for the worst bug of each source, the strongest forced pairs first.

    Looked at are, for each source, its ``width`` best destinations and outputs that the corpus knows.  Which
    trigrams are good is judged by the corpus's own pairs ``destination → out`` (:data:`GOOD_COUNT`), whatever
    the source; the size of a bug is the weaker of its two forced products.  Sources without a bug are left out.
    """
    known = (counts.unigrams >= GOOD_COUNT).nonzero().flatten()  # no rarer token can be in a good pair
    if not len(known):
        return []
    destinations, f1 = top_columns(tables.qk, sources, known, width)
    outs, f2 = top_columns(tables.ov, sources, known, width)
    product = f1.clamp_min(0).unsqueeze(2) * f2.clamp_min(0).unsqueeze(1)
    seen = counts.of(*torch.broadcast_tensors(destinations.unsqueeze(2), outs.unsqueeze(1)))
    sizes = _forced(product, seen >= GOOD_COUNT, seen == 0)
    best = sizes.flatten(1).max(1)
    corners = torch.stack(torch.unravel_index(best.indices, sizes.shape[1:]), 1).tolist()
    order = [i for i in best.values.argsort(descending=True).tolist() if best.values[i] > 0]
    return [_bug_at(tables, int(sources[i]), destinations[i], outs[i], corners[i]) for i in order]


def _forced(
    product: Float[Tensor, "source destination out"],
    good: Bool[Tensor, "source destination out"],
    bad: Bool[Tensor, "source destination out"],
) -> Float[Tensor, "source a c b d"]:
    """Return min(f(a, d), f(b, c)) where (a, c) and (b, d) are good and (a, d) and (b, c) bad; else 0."""
    forced = torch.where(bad, product, 0)
    wanted = good[:, :, :, None, None] & good[:, None, None, :, :]
    a_d, b_c = forced[:, :, None, None, :], forced.transpose(1, 2)[:, None, :, :, None]
    return torch.where(wanted, torch.minimum(a_d, b_c), 0)


def _bug_at(
    tables: Tables, source: int, destinations: Int[Tensor, "d"], outs: Int[Tensor, "o"], corner: list[int]
) -> Bug:
    a, c, b, d = corner
    return bug(tables, source, (int(destinations[a]), int(destinations[b])), (int(outs[c]), int(outs[d])))
