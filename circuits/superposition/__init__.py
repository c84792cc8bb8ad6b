"""Superposition: more features than dimensions, in a model small enough to see it happen.

The toy model of Elhage et al. (2022) squeezes ``n`` features through ``m < n`` hidden dimensions and
must give them back:

.. math:: h = x W, \\qquad \\hat x = \\mathrm{relu}(h W^\\top + b), \\qquad
          L = \\mathrm{E} \\sum_i I_i (x_i - \\hat x_i)^2

Row ``W[i]`` is the direction of feature ``i`` in the hidden space, so ``W Wᵀ`` (the paper, which writes
columns, calls it ``WᵀW``) holds the norms on its diagonal and the interference beside it.

* :mod:`~circuits.superposition.toy` - the data, the model, and its training, many models at once.
* :mod:`~circuits.superposition.geometry` - norms, dimensionality, angles of a trained ``W``.
* :mod:`~circuits.superposition.phase` - two features, one dimension: losses by quadrature, the boundary.
* :mod:`~circuits.superposition.sweep` - one problem at ten densities, trained together.
* :mod:`~circuits.superposition.shipped` - the precomputed files, and the commands that make them.
"""
