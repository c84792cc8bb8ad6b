"""A zero-layer model trained while you wait, on a world of a few tokens.

A first-order Markov chain is a text about which only bigrams can be known.  A :class:`Chain` is given by how
often each pair occurs; its conditional entropy is the least loss any model can have.  :func:`train` fits
``softmax(W_E W_U)`` to it by gradient descent on the *expected* loss, as if on endless text, so what stays above
the entropy is what ``d_model`` dimensions cannot hold, never noise.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MAX_STATES = 100


@dataclass(frozen=True)
class Chain:
    """``joint[a, b]`` is the share of all pairs that are ``a`` followed by ``b``; it sums to 1."""

    states: tuple[str, ...]
    joint: Float[Tensor, "present next"]

    @property
    def next_probs(self) -> Float[Tensor, "present next"]:
        """P(next | present); a state that nothing follows has a row of zeros."""
        return self.joint / self.joint.sum(1, keepdim=True).clamp_min(torch.finfo(self.joint.dtype).tiny)

    @property
    def entropy(self) -> float:
        """``H(next | present)`` in nats: the best possible loss."""
        return (self.joint.sum(1).xlogy(self.joint.sum(1)).sum() - self.joint.xlogy(self.joint).sum()).item()


def stationary(P: Float[Tensor, "present next"]) -> Float[Tensor, "present"]:
    """Return how often a chain with transition matrix ``P`` visits each state: ``π P = π``, ``Σ π = 1``."""
    equations = torch.cat([P.T - torch.eye(len(P), dtype=P.dtype), torch.ones(1, len(P), dtype=P.dtype)])
    target = torch.zeros(len(P) + 1, 1, dtype=P.dtype)
    target[-1] = 1
    return torch.linalg.lstsq(equations, target, driver="gelsd").solution[:, 0]


def chain(states: tuple[str, ...], P: Float[Tensor, "present next"]) -> Chain:
    """Build a chain from its transition probabilities.

    Raises:
        ValueError: a row of ``P`` is no distribution, or there are more than :data:`MAX_STATES` states.
    """
    if len(states) > MAX_STATES:
        raise ValueError(f"{len(states)} states: at most {MAX_STATES}")
    if (P < 0).any() or not torch.allclose(P.sum(1), torch.ones(len(P), dtype=P.dtype)):
        raise ValueError(f"every row of P must be probabilities that sum to 1, the sums are {P.sum(1).tolist()}")
    return Chain(states, stationary(P)[:, None] * P)


def fork() -> Chain:
    """``a`` goes to ``b`` or ``c`` with probability ½ each, both go back to ``a``: entropy ½ ln 2."""
    half = 0.5
    return chain(("a", "b", "c"), torch.tensor([[0, half, half], [1, 0, 0], [1, 0, 0]], dtype=torch.double))


def random_chain(n_states: int, spread: float = 2.0, seed: int = 0) -> Chain:
    """Return a chain whose log-probabilities are random, standard deviation ``spread``: its table has full rank."""
    generator = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(n_states, n_states, dtype=torch.double, generator=generator)
    return chain(tuple(f"s{i}" for i in range(n_states)), logits.softmax(-1))


def letters(text: str) -> Chain:
    """Return the chain of the characters of ``text``, in the order in which they first appear.

    Raises:
        ValueError: fewer than two characters, or more than :data:`MAX_STATES` different ones.
    """
    states = tuple(dict.fromkeys(text))
    if len(text) < 2:
        raise ValueError(f"{text!r} holds no pair of characters: type at least two")
    if len(states) > MAX_STATES:
        raise ValueError(f"the text has {len(states)} different characters: at most {MAX_STATES}")
    ids = torch.tensor([states.index(char) for char in text])
    pairs = torch.bincount(ids[:-1] * len(states) + ids[1:], minlength=len(states) ** 2)
    return Chain(states, pairs.double().reshape(len(states), -1) / (len(text) - 1))


@dataclass(frozen=True)
class ChainFit:
    """Zero-layer models of several sizes after training on one chain; padded with zeros to the widest."""

    d_models: tuple[int, ...]
    losses: Float[Tensor, "step size"]
    W_E: Float[Tensor, "size state d_max"]
    W_U: Float[Tensor, "size d_max state"]

    @property
    def probs(self) -> Float[Tensor, "size present next"]:
        return (self.W_E @ self.W_U).softmax(-1)


def expected_loss(chain: Chain, logits: Float[Tensor, "*size present next"]) -> Float[Tensor, "*size"]:
    """Return ``−Σ_ab joint[a, b] log softmax(logits)[a, b]`` in nats; at least ``chain.entropy``."""
    return -(chain.joint * logits.log_softmax(-1)).sum((-1, -2))


def _start(n_states: int, d_models: tuple[int, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Return normal W_E and W_U of every size, filled up with zeros to the widest."""
    generator = torch.Generator().manual_seed(seed)
    used = torch.arange(max(d_models)) < torch.tensor(d_models)[:, None]
    shape = (len(d_models), n_states, max(d_models))
    W_E, W_U_T = torch.randn(2, *shape, dtype=torch.double, generator=generator) * used[:, None]
    return W_E.requires_grad_(), W_U_T.transpose(-1, -2).clone().requires_grad_()


def train(chain: Chain, d_models: tuple[int, ...], steps: int = 600, peak: float = 0.2, seed: int = 0) -> ChainFit:
    """Train one zero-layer model for each size, side by side, with Adam and a rate that falls to 0.

    Raises:
        ValueError: a size below 1.
    """
    if min(d_models) < 1:
        raise ValueError(f"d_model {min(d_models)}: at least 1")
    W_E, W_U = _start(len(chain.states), d_models, seed)
    optimizer = torch.optim.Adam([W_E, W_U], lr=peak)
    losses = []
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = peak * (1 - step / steps)
        loss = expected_loss(chain, W_E @ W_U)  # padding stays 0: its gradient is a product with 0
        optimizer.zero_grad()
        loss.sum().backward()
        optimizer.step()
        losses.append(loss.detach())
    losses.append(expected_loss(chain, W_E @ W_U).detach())
    return ChainFit(d_models, torch.stack(losses), W_E.detach(), W_U.detach())
