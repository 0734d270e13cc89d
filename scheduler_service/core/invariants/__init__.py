"""What must hold of every history, checked against what is stored."""
