"""``python -m circuits.superposition {sweep,solutions,phase,uniform,all}``: make ``assets/toy_models`` again."""

import argparse

from circuits.superposition import shipped

COMMANDS = {
    "sweep": shipped.write_sweep,
    "solutions": shipped.write_solutions,
    "phase": shipped.write_phase,
    "uniform": shipped.write_uniform,
}


def main() -> None:
    """Recompute one precomputed file of page 11, or all."""
    parser = argparse.ArgumentParser(prog="python -m circuits.superposition", description=__doc__)
    parser.add_argument("what", choices=[*COMMANDS, "all"])
    what = parser.parse_args().what
    for name, write in COMMANDS.items():
        if what in (name, "all"):
            write()


if __name__ == "__main__":
    main()
