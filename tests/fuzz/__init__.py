"""Coverage-guided fuzzing of everything that reads what a change brings: one target a module in `targets/`."""
