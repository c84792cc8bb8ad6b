"""Questions of page 12."""

import torch

from circuits.dictionary import measures
from pages.ui.exercises import Choice, Exercise, Number, Prediction

PREDICTION = Prediction(
    "The autoencoder sees hidden vectors, never the features. With hardly any penalty it rebuilds them almost "
    "perfectly. Has it then found the features?",
    ("Yes", "No"),
    "No",
    "Many dictionaries rebuild the vectors. Only with enough penalty do the true directions pay best.",
)


def exercises(loss_recovered: float | None) -> list[Exercise]:
    """Return the exercises; ``loss_recovered`` is the shipped dictionary's, on held-out novels, where there is one."""
    closed = [
        Exercise(
            "A feature points exactly along its row and has activation a = 1. With λ = 0.3, which f does the loss "
            "choose?",
            Number(measures.shrunk(torch.tensor(1.0), 0.3).item(), 0.001),
            ("The loss is $(1 - f)^2 + 0.3 f$.", "Set its derivative to zero."),
            "$-2 (1 - f) + 0.3 = 0$ gives $f = 0.85$, that is $a - \\lambda/2$.",
        ),
        Exercise(
            "Why must the rows of W_dec have length 1?",
            Choice(
                (
                    "Otherwise f shrinks, the rows grow, and the penalty is escaped",
                    "Otherwise the encoder could not be linear",
                    "Otherwise dead features could not be counted",
                ),
                "Otherwise f shrinks, the rows grow, and the penalty is escaped",
            ),
            ("What happens to the reconstruction if $f$ is halved and the row doubled?", "And to the penalty?"),
            "The reconstruction stays, the penalty halves. Without the constraint λ would mean nothing.",
        ),
        Exercise(
            "There are 2m true features in m dimensions, and the dictionary has m rows. Can all of them be found?",
            Choice(("Yes", "No"), "No"),
            ("One row has one direction.", "Choose 'half' as many rows above and count."),
            "m rows point at m features at most. How many there are to find, nobody knows in a real model.",
        ),
        Exercise(
            "What is the density of a dead feature?",
            Number(0),
            ("Density is the share of samples in which a feature is active.", "A dead one is active in none."),
            "Zero, on the samples that were looked at. On more text a very rare feature may turn out to be alive.",
        ),
    ]
    if loss_recovered is None:
        return closed
    return [
        *closed,
        Exercise(
            "From the table's three losses on the held-out novels: what share of the loss is recovered?",
            Number(loss_recovered, 0.006),
            ("Compare with having no MLP at all.", "$(L_{zero} - L_{dictionary}) / (L_{zero} - L_{model})$."),
            "How much of the way from no MLP to the whole MLP is kept. It does not say that the features are right.",
        ),
    ]
