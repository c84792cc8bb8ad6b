"""How the shipped models are made: corpus, tokenizer, batches, trainer, history, cards.

``python -m circuits.training all --corpus DIR`` makes every file under ``assets/`` again.
"""
