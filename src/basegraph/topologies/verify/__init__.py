"""The proof that a sequence is what it claims to be."""
