"""Dictionary learning: directions that mean something, found by asking for sparse sums of them.

In superposition no single coordinate is a feature.  A sparse autoencoder looks for a dictionary of directions
such that every activation vector is nearly a sum of few of them.

* :mod:`~circuits.dictionary.autoencoder` - the model and its training, many values of λ as one tensor.
* :mod:`~circuits.dictionary.measures` - L0, density, explained variance, dead features; the closed form of shrinkage.
* :mod:`~circuits.dictionary.truth` - the toy model's hidden vectors, where the right dictionary is known.
* :mod:`~circuits.dictionary.search` - the search for a toy's features at eight λ, and the one that is shipped.
* :mod:`~circuits.dictionary.features` - a dictionary of a transformer's MLP: logit effect, splicing it in.
* :mod:`~circuits.dictionary.shipped` - the autoencoder of ``one-layer-mlp``: ``python -m circuits.dictionary``.

SAELens cannot stand beside TransformerLens 4, so the autoencoder is ours: small, and checked against known truth.
"""
