"""Circuit discovery: which parts of a model are responsible for one behaviour, found by intervention.

A :class:`Pair` is two prompts of equal length, *clean* (the model does the thing) and *corrupt* (it does
not), and a metric: the logit of the answer minus the logit of a wrong answer, at the last position.  Every
method here moves something from one run into the other and reads the metric again:

* **ablation** replaces a head's output by zero, by its mean, or by its output on another prompt;
* **activation patching** replaces one activation (q, k, v, pattern, z) of one head;
* **attribution patching** estimates all of those at once from one gradient;
* **edge (path) patching** replaces one source *in one input of one reader*: the finest grain there is.

In the models of this family there is no LayerNorm: every input is a plain sum of earlier outputs.  So a patch
is the addition of a difference, an edge is one summand of one sum, and no hook is needed: this package acts on
:class:`~circuits.weights.Weights`, and the tests hold it against hooked runs of TransformerLens.

Sources: Meng et al. 2022 and Wang et al. 2022 (activation and path patching), Nanda 2023 and Syed et al. 2023,
arXiv 2310.10348 (attribution patching), Conmy et al. 2023, arXiv 2304.14997 (ACDC: the edge graph).
"""

from circuits.discovery.ablation import Ablation, Gate, Together, ablate_each, ablate_together, gate_patching
from circuits.discovery.edges import Edge, edge_attribution, edge_effects, graph
from circuits.discovery.faithfulness import Circuit, circuit_metrics, faithfulness, strongest
from circuits.discovery.pairs import CORRUPTIONS, Pair, renaming, repeat_pair
from circuits.discovery.patching import (
    KINDS,
    Activations,
    activation_patching,
    activations,
    attribution_patching,
    components,
    differences,
    metrics,
    shifted_forward,
)

__all__ = [
    "CORRUPTIONS",
    "KINDS",
    "Ablation",
    "Activations",
    "Circuit",
    "Edge",
    "Gate",
    "Pair",
    "Together",
    "ablate_each",
    "ablate_together",
    "activation_patching",
    "activations",
    "attribution_patching",
    "circuit_metrics",
    "components",
    "differences",
    "edge_attribution",
    "edge_effects",
    "faithfulness",
    "gate_patching",
    "graph",
    "metrics",
    "renaming",
    "repeat_pair",
    "shifted_forward",
    "strongest",
]
