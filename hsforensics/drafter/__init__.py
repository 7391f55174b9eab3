"""The drafter: its config, its weights, the EAGLE-3 forward in plain torch, and its evaluation."""
