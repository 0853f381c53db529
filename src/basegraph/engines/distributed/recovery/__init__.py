"""What nodes save at a fault, and how any number of them starts from it."""
