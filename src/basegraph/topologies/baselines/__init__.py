"""What the paper compares with: static graphs, exponential graphs, EquiTopo."""
