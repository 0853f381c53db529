"""The stacked step as one CUDA graph."""
