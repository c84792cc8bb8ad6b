"""Make the files under ``assets/`` again.

    python -m circuits.training all --corpus DIR  everything (hours on two cores)
    python -m circuits.training two-layer --corpus DIR  one stage
    python -m circuits.training two-layer --corpus DIR --resume  go on where a run was cut
    accelerate launch -m circuits.training two-layer --corpus DIR  over several GPUs or hosts
    torchrun --nproc_per_node 2 -m circuits.training two-layer --corpus DIR  over processes of one CPU

DIR is any folder of plain-text books, one ``.txt`` each.
"""

import argparse
import os
import sys
from pathlib import Path

import torch

from circuits import models
from circuits.training.stages import STAGES, Job


def parser() -> argparse.ArgumentParser:
    """Return the command line of the training package."""
    parser = argparse.ArgumentParser(
        prog="python -m circuits.training", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=["all", *STAGES])
    parser.add_argument("--corpus", type=Path, required=True, metavar="DIR", help="a folder of .txt files")
    parser.add_argument("--assets", type=Path, default=models.ASSETS, help="where the files go (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="unfinished runs (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="go on from what is in --work")
    parser.add_argument("--steps", type=int, help="fewer or more steps than the recipe's")
    parser.add_argument("--threads", type=int, help="CPU threads (default: PyTorch's choice)")
    parser.add_argument(
        "--precision", choices=["no", "bf16"], default=best_precision(), help="mixed precision (default: %(default)s)"
    )
    return parser


def best_precision() -> str:
    """Return ``bf16`` where the hardware multiplies in it, else ``no``."""
    if torch.cuda.is_available():
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "no"
    capabilities = torch.cpu.get_capabilities()
    return "bf16" if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") else "no"


def main(arguments: list[str] | None = None) -> int:
    """Run one stage, or all in order; return the exit status."""
    options = parser().parse_args(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)  # tiny optimiser moments would otherwise slow every step down
    main_process = os.environ.get("RANK", "0") == "0"
    job = Job(
        corpus=options.corpus,
        assets=options.assets,
        work=options.work,
        resume=options.resume,
        precision=options.precision,
        steps=options.steps,
        say=(lambda text: print(text, flush=True)) if main_process else (lambda text: None),
    )
    stages = STAGES if options.stage == "all" else [options.stage]
    try:
        for stage in stages:
            STAGES[stage](job)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
