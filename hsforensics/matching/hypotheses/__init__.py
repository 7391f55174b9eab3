"""What else could a channel be, when no state of the bank fits? One small file for each family of transforms."""
