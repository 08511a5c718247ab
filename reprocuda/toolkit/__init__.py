"""What makes a run repeat beside its sums: seeds, torch's flags, modes, and torch's refusals explained."""
