"""The paper's models with group normalisation, a small MLP, and modules as flat vectors."""
