"""The training loop: a pure schedule, resumable, spread over processes by ``accelerate``."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from circuits import induction
from circuits.training.batches import Batches
from circuits.training.transformer import Shape, Transformer, state_dict

LOG_EVERY, SNAPSHOT_EVERY, SAVE_EVERY = 50, 100, 500
EVAL_WINDOWS = 64


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run besides the data.

    ``mlp_lr_share`` is the part of the learning rate that an MLP takes.  At the whole of it, keys are pushed
    so far in their first steps that three neurons in four never answer again, and the loss ends above that of
    the same model without an MLP.
    """

    shape: Shape
    steps: int
    peak_lr: float = 4e-3
    mlp_lr_share: float = 0.125
    rows: int = 8
    warmup: int = 100
    floor: float = 0.05
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0

    def lr(self, step: int) -> float:
        """Linear warm-up, then a cosine down to ``floor · peak_lr`` at the last step."""
        if step < self.warmup:
            return self.peak_lr * (step + 1) / self.warmup
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.peak_lr * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress)))


class Trainer:
    """One run of one model in ``folder``: weights, optimiser state, metrics and snapshots live there."""

    def __init__(self, recipe: Recipe, text: np.ndarray, held_out: Tensor, folder: Path, precision: str = "no"):
        self.recipe, self.folder = recipe, Path(folder)
        self.accelerator = Accelerator(mixed_precision=precision, cpu=not torch.cuda.is_available())
        torch.manual_seed(recipe.seed)
        model = Transformer(recipe.shape)
        optimiser = torch.optim.AdamW(
            parameter_groups(model, recipe), betas=recipe.betas, weight_decay=recipe.weight_decay, fused=True
        )
        self.model, self.optimiser = self.accelerator.prepare(model, optimiser)
        shape = recipe.shape
        self.batches = Batches(text, shape.n_ctx, recipe.rows, shape.d_vocab, recipe.seed)
        self.held_out = held_out[:: max(1, len(held_out) // EVAL_WINDOWS)][:EVAL_WINDOWS]
        self.step, self.metrics = 0, []
        (self.folder / "snapshots").mkdir(parents=True, exist_ok=True)

    def resume(self) -> None:
        """Go on from the last saved state in ``folder``, if there is one.

        Raises:
            ValueError: that state was trained by another recipe.
        """
        file = self.folder / "state.pt"
        if not file.exists():
            return
        state = torch.load(file, map_location="cpu", weights_only=True)
        recipe = asdict(self.recipe)
        if state.get("recipe", recipe) != recipe:
            raise ValueError(
                f"{file} belongs to another recipe: {state['recipe']}, not {recipe}. Choose another --work"
            )
        self.accelerator.unwrap_model(self.model).load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step = state["step"]
        rows = (self.folder / "metrics.jsonl").read_text().splitlines()
        self.metrics = [row for row in map(json.loads, rows) if row["step"] < self.step]

    def run(self) -> Iterator[dict]:
        """Train to the last step, yielding every logged row of metrics."""
        bar = tqdm(total=self.recipe.steps, initial=self.step, disable=not self.accelerator.is_main_process)
        while self.step < self.recipe.steps:
            if self.step % SNAPSHOT_EVERY == 0:
                self.snapshot()
            log = self.step % LOG_EVERY == 0
            row = self.measure() if log else None
            loss = self.update()
            if log:
                row = {"step": self.step, "train_loss": round(loss, 5)} | row
                self.metrics.append(row)
                best = np.max(row["induction"]) if row["induction"] else 0.0
                bar.set_postfix(
                    loss=f"{row['held_out']:.3f}", copy=f"{row['copy_accuracy']:.2f}", induction=f"{best:.2f}"
                )
                yield row
            self.step += 1
            bar.update()
            if self.step % SAVE_EVERY == 0 or self.step == self.recipe.steps:
                self.save()
        self.snapshot()
        self.metrics.append({"step": self.step, "train_loss": None} | self.measure())
        self.save()
        bar.close()

    def update(self) -> float:
        """Take one optimiser step on this process's share of the global batch; return the global loss."""
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        tokens, weights = self.batches(self.step)
        tokens, weights = (x[rank::world].to(self.accelerator.device) for x in (tokens, weights))
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.lr(self.step) * group["share"]
        with self.accelerator.autocast():
            # Gradients are averaged over processes: times world, they are the sum over the global batch.
            loss = world * self.model(tokens, weights)
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return self.accelerator.reduce(loss.detach(), "mean").item()

    @torch.no_grad()
    def measure(self) -> dict:
        """Return the metrics of the present weights: held-out loss, second copy, scores of every head."""
        model = self.accelerator.unwrap_model(self.model)
        with self.accelerator.autocast():
            losses = torch.cat([token_losses(model, rows) for rows in self.held_out.split(8)])
            probe = induction.repeat_probe(d_vocab=self.recipe.shape.d_vocab).to(self.accelerator.device)
            copy = induction.second_copy(model.logits(probe).float(), probe, period=50)
            patterns = model.patterns(probe).float().mean(1)
        scores = {
            "previous": induction.previous_token_score(patterns),
            "duplicate": induction.duplicate_token_score(patterns, 50),
            "induction": induction.induction_score(patterns, 50),
        }
        return {
            "held_out": round(losses.mean().item(), 4),
            "in_context": round(induction.in_context_score(losses), 4),
            "copy_loss": round(copy.loss, 4),
            "copy_accuracy": round(copy.accuracy, 4),
        } | {name: [[round(x, 4) for x in layer] for layer in score.tolist()] for name, score in scores.items()}

    def snapshot(self) -> None:
        """Keep the weights of this step, float16, for the history."""
        if self.accelerator.is_main_process:
            weights = state_dict(self.accelerator.unwrap_model(self.model))
            save_file(weights, self.folder / "snapshots" / f"{self.step:06d}.safetensors")

    def save(self) -> None:
        """Write what :meth:`resume` needs, in one rename, so that a cut run leaves the older state whole."""
        if not self.accelerator.is_main_process:
            return
        model = self.accelerator.unwrap_model(self.model).state_dict()
        optimiser = getattr(self.optimiser, "optimizer", self.optimiser).state_dict()
        state = {"model": model, "optimiser": optimiser, "step": self.step, "recipe": asdict(self.recipe)}
        torch.save(state, self.folder / "state.tmp")
        (self.folder / "state.tmp").rename(self.folder / "state.pt")
        lines = "".join(json.dumps(row) + "\n" for row in self.metrics)
        (self.folder / "metrics.jsonl").write_text(lines)


def parameter_groups(model: Transformer, recipe: Recipe) -> list[dict]:
    """Return AdamW's groups: what the MLPs hold, with their ``share`` of the learning rate, and the rest."""
    mlp = [value for name, value in model.named_parameters() if ".mlp." in name]
    rest = [value for name, value in model.named_parameters() if ".mlp." not in name]
    groups = [{"params": rest, "share": 1.0}, {"params": mlp, "share": recipe.mlp_lr_share}]
    return [group for group in groups if group["params"]]


def token_losses(model: Transformer, tokens: Tensor) -> Tensor:
    """Return the loss of every predicted token, ``[row, pos - 1]``, in nats."""
    logits = model.logits(tokens)[:, :-1].float()
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
