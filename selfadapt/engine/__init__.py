"""The training loop, and what it needs to be exact across crashes and processes."""
