"""A transformer, taken apart: the mathematics behind *Circuits, live*.

Conventions, said once:

* **Row vectors.** A position's stream is a row ``x`` of shape ``[d_model]`` and a matrix acts from the
  right, ``x @ W``, as in TransformerLens.  *A Mathematical Framework for Transformer Circuits* (Elhage et
  al., 2021) writes columns and ``W x``.  So ``W_QK = W_Q @ W_K.T`` is the paper's matrix itself, while
  ``W_OV = W_V @ W_O`` is the transpose of the paper's: *QK is the same, OV is transposed.*
* **Positions** are ``query`` (the destination, rows of a pattern) and ``key`` (the source, columns).
* **Scores** are always divided by √d_head before they are shown or summed.
* **Layers and heads** count from 0; a head is written ``L1H4``.
* **BOS** is token 0 and stands at position 0 of every prompt and of every training window.
* **Losses** are nats per predicted token.
* "Circuit" without more means the end-to-end product over tokens (``W_E W_QK W_Eᵀ``, ``W_E W_OV W_U``).

Every function is pure: tensors in, tensors or frozen dataclasses out; ``ValueError`` names what was wrong.
Nothing here knows of Streamlit.
"""
