"""What can be known without running a step: the environment, the source of a script, and the pins of a run."""
