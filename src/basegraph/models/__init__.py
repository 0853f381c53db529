"""The paper's models with group normalization, a small MLP, and modules as flat vectors."""
