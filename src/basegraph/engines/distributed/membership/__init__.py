"""Who the nodes are, how they find each other, and who is lost."""
