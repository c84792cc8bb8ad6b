"""Questions of page 07."""

import numpy as np

from circuits.weights import Head
from pages.ui.exercises import Choice, Exercise, HeadName, Number, Prediction

INPUTS = {"Q": "Queries", "K": "Keys", "V": "Values"}


def prediction(boards: dict[str, np.ndarray]) -> Prediction:
    """Ask for the board with the highest score, computed from the weights at hand."""
    return Prediction(
        "Three boards will say how much each second-layer head reads of what each first-layer head writes. "
        "Through which of its three inputs is the highest score?",
        tuple(INPUTS.values()),
        INPUTS[max(boards, key=lambda kind: boards[kind].max())],
        "The boards are computed from this model's weights; another training run may answer otherwise.",
    )


def exercises(model_name: str, keys: np.ndarray, reader: Head) -> list[Exercise]:
    """Return the exercises; ``keys[writer, reader]`` are the K-scores in units of chance."""
    best = int(keys[:, reader.head].argmax())
    return [
        *BASELINES,
        Exercise(
            f"In `{model_name}`: which first-layer head has the highest K-composition score with {reader}?",
            HeadName((Head(0, best),)),
            ("Look at the board of keys, with the corrected formula.", f"Go down the column {reader}."),
            f"{Head(0, best)}, with {keys[best, reader.head]:.2f} × chance.",
        ),
        *READING,
    ]


BASELINES = (
    Exercise(
        "What score does chance give with d_model = 256 and d_head = 32?",
        Number(0.0625, 5e-4),
        ("d_head does not enter.", "One over the square root of d_model."),
        "1/√256 = 1/16 = 0.0625.",
    ),
    Exercise(
        "d_head = 16, flat spectra, and one head reads exactly the subspace that the other writes. What is the score?",
        Number(0.25, 1e-3),
        ("It is not 1: the norm is spread over 16 directions.", "A flat matrix has norm √16, and so has the product."),
        "√16 / (√16 · √16) = 1/√16 = 0.25.",
    ),
    Exercise(
        "Two previous-token heads form a virtual head. From position 7, where does it look?",
        Number(5),
        ("The second looks at 6. Where does 6 look?", "A² A¹ shifts twice."),
        "Position 7 looks at 6, and what 6 holds came from 5.",
    ),
)
READING = (
    Exercise(
        "The second order takes almost nothing off a model's loss. Does that rule out K-composition?",
        Choice(
            ("Yes: its heads do not work together", "No: frozen patterns hide it", "Only if the score is under chance"),
            "No: frozen patterns hide it",
        ),
        ("Which kind of composition is a path of order 2?", "Where does a K-composed head's benefit show?"),
        "Order 2 is V-composition. A head with composed keys keeps its sharp pattern in every one of these runs.",
    ),
)
