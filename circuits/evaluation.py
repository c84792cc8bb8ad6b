"""What a model is worth, measured in one place: the training command, the model cards and the tests all call this.

Losses are measured with the served model; scores of heads with its weights alone, so that a head can be
taken out of a copy without touching the model that others use.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from circuits import induction
from circuits.models import LOCK
from circuits.weights import Head, Weights, forward

PERIOD = 50
"""The period of the repeat probe: BOS, 50 random tokens, the same 50 again."""

BATCH = 8
"""Windows a forward pass: the logits of eight windows of 256 tokens are 34 MB."""


@dataclass(frozen=True)
class RepeatScores:
    """One model on the repeat probe: its second copy, and three scores of every head, ``[layer, head]``."""

    copy_loss: float
    copy_accuracy: float
    previous: Float[Tensor, "layer head"]
    duplicate: Float[Tensor, "layer head"]
    induction: Float[Tensor, "layer head"]

    @property
    def previous_token_head(self) -> Head:
        """The head with the highest previous-token score."""
        return best_head(self.previous)

    @property
    def induction_head(self) -> Head:
        """The head with the highest induction score."""
        return best_head(self.induction)


@dataclass(frozen=True)
class Evaluation:
    """Everything a model card says: loss on text, scores on the probe, and the probe without one head.

    ``ablated`` holds the scores with ``repeats.previous_token_head`` zero-ablated; None without heads.
    """

    loss: float
    in_context: float
    n_windows: int
    repeats: RepeatScores
    ablated: RepeatScores | None


def best_head(scores: Float[Tensor, "layer head"]) -> Head:
    """Return the head whose score is highest."""
    if not scores.numel():
        raise ValueError("a model without layers has no heads to choose from")
    return Head(*divmod(int(scores.argmax()), scores.shape[1]))


@torch.inference_mode()
def window_losses(model: TransformerBridge, windows: Int[Tensor, "window n_ctx"]) -> Float[Tensor, "window predicted"]:
    """Return the loss of every predicted token, in nats; ``[w, p]`` belongs to token ``p + 1``."""
    losses = []
    for rows in windows.split(BATCH):
        with LOCK:  # another session's hooks must not be on the shared model meanwhile
            logits = model(rows)
        losses.append(F.cross_entropy(logits[:, :-1].transpose(1, 2), rows[:, 1:], reduction="none"))
    return torch.cat(losses)


def loss_on_windows(model: TransformerBridge, windows: Int[Tensor, "window n_ctx"]) -> float:
    """Return the mean loss over all predicted tokens of windows that begin with BOS, nats per token."""
    return window_losses(model, windows).double().mean().item()


@torch.inference_mode()
def repeat_scores(weights: Weights, probe: Int[Tensor, "batch pos"] | None = None) -> RepeatScores:
    """Score ``weights`` on the repeat probe of period 50, 16 rows; patterns are averaged over the rows.

    Another ``probe`` must have the same form: BOS, ``PERIOD`` tokens, the same tokens again.
    """
    probe = induction.repeat_probe(PERIOD, d_vocab=weights.d_vocab) if probe is None else probe
    run = forward(weights, probe)
    copy, pattern = induction.second_copy(run.logits, probe, PERIOD), run.pattern.mean(0)
    return RepeatScores(
        copy_loss=copy.loss,
        copy_accuracy=copy.accuracy,
        previous=induction.previous_token_score(pattern),
        duplicate=induction.duplicate_token_score(pattern, PERIOD),
        induction=induction.induction_score(pattern, PERIOD),
    )


def without_head(weights: Weights, head: Head) -> Weights:
    """Return the weights with one head's ``W_O`` zero: it still attends, and writes nothing."""
    W_O = weights.W_O.clone()
    W_O[head] = 0
    return replace(weights, W_O=W_O)


def evaluate(model: TransformerBridge, windows: Int[Tensor, "window n_ctx"]) -> Evaluation:
    """Measure a model on windows of text and on the repeat probe, whole and without its previous-token head."""
    weights = Weights.of(model)
    losses = window_losses(model, windows).double()
    repeats = repeat_scores(weights)
    ablated = repeat_scores(without_head(weights, repeats.previous_token_head)) if weights.n_layers else None
    return Evaluation(losses.mean().item(), induction.in_context_score(losses), len(windows), repeats, ablated)
