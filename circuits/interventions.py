"""Change one thing inside the served model, run it, and leave no trace.

An intervention is a list of hooks; :func:`hooked` hangs them on the one shared model under
:data:`circuits.models.LOCK` and takes them off again, whatever happens in between.  What a head *sends* is
replaced at ``hook_z`` (zero, mean or resample ablation), where it *looks* at ``hook_pattern`` (idealised
attention).  The rest of the model reacts: layers above the change see its consequences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.model_bridge import TransformerBridge

from circuits import models
from circuits.weights import Head, Run

Hook = tuple[str, Callable]
"""The name of an activation, and what is done to it: ``f(value, hook) -> value``."""


@contextmanager
def hooked(model: TransformerBridge, hooks: Iterable[Hook]) -> Iterator[TransformerBridge]:
    """Hang ``hooks`` on the shared model, alone with it, until the block ends, by an exception too."""
    with models.LOCK, model.hooks(fwd_hooks=list(hooks)):
        yield model


def run(model: TransformerBridge, tokens: Int[Tensor, "*batch pos"], hooks: Iterable[Hook]) -> Run:
    """Return the :class:`Run` of the model under ``hooks``.

    ``scores`` are those of the changed stream; a replaced pattern is no longer their softmax.
    """
    with hooked(model, hooks):
        return models.run(model, tokens)


@torch.inference_mode()
def head_z(
    model: TransformerBridge, tokens: Int[Tensor, "*batch pos"]
) -> Float[Tensor, "*batch layer head pos d_head"]:
    """Return every head's weighted sum of values, ``z = A x W_V``, the input of ``W_O``."""
    with models.LOCK:
        _, cache = model.run_with_cache(tokens.reshape(-1, tokens.shape[-1]))
    z = torch.stack([cache[f"blocks.{layer}.attn.hook_z"] for layer in range(model.cfg.n_layers)], 1)
    return z.transpose(2, 3).reshape(*tokens.shape[:-1], *z.transpose(2, 3).shape[1:])


def replace_z(
    model: TransformerBridge, heads: Iterable[Head], z: Float[Tensor, "*batch layer head pos d_head"]
) -> list[Hook]:
    """Let ``heads`` send ``z[layer, head]`` instead of their own sum of values.

    ``z`` may be anything that broadcasts over batch and position: zeros, a mean, another prompt's values.
    """
    return [(f"blocks.{head.layer}.attn.hook_z", _set_z(head, z)) for head in existing(model, heads)]


def _set_z(head: Head, z: Tensor) -> Callable:
    def hook(value: Float[Tensor, "batch pos head d_head"], hook) -> Tensor:
        changed = value.clone()
        changed[..., head.head, :] = z[..., head.layer, head.head, :, :].to(value)
        return changed

    return hook


def zero_ablation(model: TransformerBridge, heads: Iterable[Head]) -> list[Hook]:
    """Let ``heads`` send nothing: the model must do with what the other components write."""
    cfg = model.cfg
    return replace_z(model, heads, torch.zeros(cfg.n_layers, cfg.n_heads, 1, cfg.d_head))


def mean_ablation(model: TransformerBridge, heads: Iterable[Head], reference: Int[Tensor, "*batch pos"]) -> list[Hook]:
    """Let ``heads`` send their mean over every position of ``reference``, BOS left out.

    The mean keeps what a head says whatever the input, which zero ablation takes away as well.
    """
    z = head_z(model, reference.reshape(-1, reference.shape[-1]))
    return replace_z(model, heads, z[..., 1:, :].mean((0, -2)).unsqueeze(-2))


def resample_ablation(model: TransformerBridge, heads: Iterable[Head], other: Int[Tensor, "*batch pos"]) -> list[Hook]:
    """Let ``heads`` send what they send on ``other``, a prompt of the same length."""
    return replace_z(model, heads, head_z(model, other))


def replace_patterns(model: TransformerBridge, patterns: Mapping[Head, Float[Tensor, "query key"]]) -> list[Hook]:
    """Let each head look where its given pattern looks; values and outputs stay its own.

    Used for *idealised attention*: if a head is nothing but a previous-token head, the ideal pattern
    does as well as its own.
    """
    existing(model, patterns)
    return [(f"blocks.{head.layer}.attn.hook_pattern", _set_pattern(head, A)) for head, A in patterns.items()]


def _set_pattern(head: Head, pattern: Tensor) -> Callable:
    def hook(value: Float[Tensor, "batch head query key"], hook) -> Tensor:
        changed = value.clone()
        changed[:, head.head] = pattern.to(value)
        return changed

    return hook


def existing(model: TransformerBridge, heads: Iterable[Head]) -> list[Head]:
    """Return ``heads`` as a list, or raise ``ValueError`` naming one that the model does not have."""
    heads = list(heads)
    for head in heads:
        if not (0 <= head.layer < model.cfg.n_layers and 0 <= head.head < model.cfg.n_heads):
            raise ValueError(
                f"there is no head {head}: the model has {model.cfg.n_layers} layers of {model.cfg.n_heads} heads"
            )
    return heads


def recovered(clean: float, ablated: float, replaced: float) -> float:
    """Return the share of a head's effect that a stand-in brings back, ``(ablated − replaced) / (ablated − clean)``.

    1 where the stand-in does as well as the head itself, 0 where it does no better than nothing.

    Raises:
        ValueError: ablation changed nothing, so there is nothing to recover.
    """
    if ablated == clean:
        raise ValueError(f"ablation changed nothing: the loss is {clean} with and without the head")
    return (ablated - replaced) / (ablated - clean)
