"""The shipped index belongs to the shipped weights and text, and says what they say."""

import torch

from circuits import contexts, models
from circuits.weights import Weights, forward

HALF = 2e-3  # activations are kept as float16: three digits


def test_the_shipped_index_is_that_of_the_shipped_model():
    model = models.load(contexts.MODEL)
    weights, text = Weights.of(model), contexts.windows(model)
    sha256 = models.read_config(models.ASSETS / "models" / contexts.MODEL, contexts.MODEL)["sha256"]
    found = contexts.load(models.ASSETS / contexts.INDEX, sha256, contexts.digest(text))
    unit = int(found.activation[:, 0].argmax())
    for rank in (0, contexts.PER_UNIT - 1):
        window, position = int(found.window[unit, rank]), int(found.position[unit, rank])
        run = forward(weights, text[window])
        read = (run.resid_final - run.mlp_out[0])[position]  # one layer: without its own output, what the MLP read
        activation = torch.relu(read @ weights.W_in[0, :, unit] + weights.b_in[0, unit])
        torch.testing.assert_close(found.activation[unit, rank], activation, atol=HALF, rtol=HALF)
