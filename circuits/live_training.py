"""A phase change in seconds: small attention-only models trained on random tokens that repeat.

Every row is BOS and then a block of random tokens, tiled to the end.  Nothing predicts the first copy;
from the second on, an induction head predicts everything.  With ``period=None`` the length of the block
is drawn anew for every row.  With a fixed period one layer solves the task by position alone, looking
``period − 1`` back, and fails at any other period.

The start is chosen so that the course of a long run is seen in a short one: queries and keys begin small,
so that attention is even at first and the model learns to *pick some token it has seen*; positions begin
large, so that this plateau lasts long enough to be looked at.

A run is a stepper, not a thread: :meth:`LiveRun.advance` trains a few steps and returns, so that
whoever holds it may stop, look, and go on.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from circuits import induction
from circuits.training.transformer import Shape, Transformer, sinusoids

D_VOCAB, D_MODEL, N_HEADS, D_HEAD, N_CTX = 64, 64, 4, 16, 48
ROWS = 32
STEPS, MEASURE_EVERY = 1200, 25
LEARNING_RATE, WARMUP, CLIP = 2e-3, 50, 1.0

TRAINED = range(5, 17)
"""The periods that ``period=None`` draws from."""

PROBED = range(4, 21)
"""The periods at which second-copy accuracy is measured: some were never trained."""

PROBE_PERIOD = 12
"""Head scores and patterns are taken at this period."""

LEARNT = 0.6
"""From this second-copy accuracy on, over the trained periods, the task counts as learnt."""


@dataclass(frozen=True)
class Setup:
    """What a reader chooses before a run."""

    n_layers: int = 2
    smeared: bool = False
    period: int | None = None
    seed: int = 0

    def __post_init__(self):
        if self.n_layers not in (1, 2):
            raise ValueError(f"n_layers is {self.n_layers}: a live model has one layer or two")
        if self.period is not None and self.period not in TRAINED:
            raise ValueError(f"period {self.period} is not in {TRAINED.start} … {TRAINED.stop - 1}")

    @property
    def periods(self) -> tuple[int, ...]:
        """The periods this run trains on."""
        return tuple(TRAINED) if self.period is None else (self.period,)


class SmearedKeys(nn.Linear):
    """Keys that hold a share of the key before: ``k_j ← σ(α) k_j + (1 − σ(α)) k_{j−1}``, one α a head.

    The first position has nothing before it and keeps its own key.
    Source: Olsson et al. 2022, "In-context Learning and Induction Heads", argument 2.
    """

    def __init__(self, d_model: int, n_heads: int, d_head: int):
        super().__init__(d_model, n_heads * d_head, bias=False)
        self.alpha = nn.Parameter(torch.zeros(n_heads))

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos head_times_d_head"]:
        keys = super().forward(x).unflatten(-1, (len(self.alpha), -1))
        before = torch.cat([keys[:, :1], keys[:, :-1]], dim=1)
        own = self.alpha.sigmoid()[:, None]
        return (own * keys + (1 - own) * before).flatten(-2)


def start(setup: Setup) -> Transformer:
    """Return the untrained model, a pure function of ``setup`` (a generator of its own: other threads draw too)."""
    model = Transformer(Shape(setup.n_layers, 0, D_MODEL, N_HEADS, D_HEAD, N_CTX, D_VOCAB))
    generator = torch.Generator().manual_seed(setup.seed)

    def normal(weight: Tensor, std: float) -> None:
        nn.init.normal_(weight, std=std, generator=generator)

    normal(model.embed.weight, 0.6)
    model.pos_embed.weight.data = 5.0 * sinusoids(N_CTX, D_MODEL)
    fan_in = D_MODEL**-0.5
    for block in model.blocks:
        if setup.smeared:
            block.attn.k = SmearedKeys(D_MODEL, N_HEADS, D_HEAD)
        normal(block.attn.q.weight, 0.1 * fan_in)
        normal(block.attn.k.weight, 0.1 * fan_in)
        normal(block.attn.v.weight, fan_in)
        normal(block.attn.o.weight, fan_in / math.sqrt(2 * setup.n_layers))
    normal(model.unembed.weight, 0.3 * fan_in)
    return model


def tiled(periods: Int[Tensor, "*rows"], generator: torch.Generator) -> Int[Tensor, "*rows n_ctx"]:
    """Return BOS and a random block of each period, repeated to the end of the row."""
    block = torch.randint(1, D_VOCAB, (*periods.shape, N_CTX), generator=generator)
    body = block.gather(-1, torch.arange(N_CTX - 1) % periods.unsqueeze(-1))
    return nn.functional.pad(body, (1, 0))


def batch(setup: Setup, step: int) -> tuple[Int[Tensor, "row n_ctx"], Float[Tensor, "row n_ctx"]]:
    """Return tokens and loss weights of one step, a pure function of ``(setup, step)``; the weights sum to 1.

    Only what can be predicted is learnt: from the second token of the second copy on.
    """
    generator = torch.Generator().manual_seed(1_000_003 * setup.seed + step)
    which = torch.randint(len(setup.periods), (ROWS,), generator=generator)
    periods = torch.tensor(setup.periods)[which]
    learn = (torch.arange(N_CTX) >= periods[:, None] + 2).float()
    return tiled(periods, generator), learn / learn.sum()


@dataclass(frozen=True)
class Row:
    """One measurement of a run; losses in nats, accuracies and scores in [0, 1]."""

    step: int
    loss: float
    """On the second copy, mean over the trained periods."""
    accuracy: dict[int, float]
    """Top-1 on the second copy, for every period of ``PROBED``."""
    previous: tuple[tuple[float, ...], ...]
    """Previous-token score by layer and head."""
    induction: tuple[tuple[float, ...], ...]

    def mean_accuracy(self, periods: tuple[int, ...]) -> float:
        return sum(self.accuracy[period] for period in periods) / len(periods)


def probes(rows: int = 16) -> Int[Tensor, "period row n_ctx"]:
    """Return the rows on which every run is measured, one group a period of ``PROBED``."""
    generator = torch.Generator().manual_seed(-1)  # no training batch has this seed
    return tiled(torch.tensor(PROBED)[:, None].expand(-1, rows), generator)


def seen_level(setup: Setup) -> float:
    """Return the loss of picking at random among the tokens seen: mean ln(different tokens in the block), in nats."""
    groups = dict(zip(PROBED, probes(), strict=True))
    logs = [
        sum(math.log(len(set(row[1 : 1 + period].tolist()))) for row in groups[period]) / len(groups[period])
        for period in setup.periods
    ]
    return sum(logs) / len(logs)


@torch.no_grad()
def measure(model: Transformer, setup: Setup, step: int) -> Row:
    """Measure a model on the probes, by the definitions of :mod:`circuits.induction`."""
    tokens = probes()
    logits = model.logits(tokens.flatten(0, 1)).unflatten(0, tokens.shape[:2])
    copies = {
        period: induction.second_copy(logits[i, :, : 2 * period + 1], tokens[i, :, : 2 * period + 1], period)
        for i, period in enumerate(PROBED)
    }
    patterns = model.patterns(tokens[PROBED.index(PROBE_PERIOD), :, : 2 * PROBE_PERIOD + 1]).mean(1)
    return Row(
        step=step,
        loss=sum(copies[period].loss for period in setup.periods) / len(setup.periods),
        accuracy={period: copy.accuracy for period, copy in copies.items()},
        previous=_nested(induction.previous_token_score(patterns)),
        induction=_nested(induction.induction_score(patterns, PROBE_PERIOD)),
    )


def _nested(scores: Float[Tensor, "layer head"]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, scores.tolist()))


class LiveRun:
    """One run, from its untrained start to ``STEPS``; about a megabyte, and idle unless it is advanced."""

    def __init__(self, setup: Setup):
        self.setup = setup
        self.model = start(setup)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        self.step = 0
        self.rows: list[Row] = [measure(self.model, setup, 0)]

    @property
    def done(self) -> bool:
        return self.step >= STEPS

    def advance(self, steps: int) -> list[Row]:
        """Train at most ``steps`` more steps, never beyond the end; return what was measured on the way."""
        before = len(self.rows)
        for _ in range(min(steps, STEPS - self.step)):
            self._update()
            if self.step % MEASURE_EVERY == 0:
                self.rows.append(measure(self.model, self.setup, self.step))
        return self.rows[before:]

    @torch.enable_grad()
    def _update(self) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (self.step + 1) / WARMUP)
        self.model(*batch(self.setup, self.step)).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1

    def learnt_at(self) -> int | None:
        """Return the first measured step at which the trained periods were learnt, or None."""
        return next((row.step for row in self.rows if row.mean_accuracy(self.setup.periods) >= LEARNT), None)

    @torch.no_grad()
    def patterns(self) -> Float[Tensor, "layer head query key"]:
        """Return the present patterns on the first probe of ``PROBE_PERIOD``."""
        tokens = probes()[PROBED.index(PROBE_PERIOD), :1, : 2 * PROBE_PERIOD + 1]
        return self.model.patterns(tokens)[:, 0]

    def own_share(self) -> tuple[float, ...]:
        """Return σ(α) of every head: how much of a smeared key is its own; empty without smearing."""
        keys = self.model.blocks[0].attn.k
        return tuple(keys.alpha.sigmoid().tolist()) if isinstance(keys, SmearedKeys) else ()
