"""Model files on disk: checkpoints of any kind, and the target model's geometry and few needed weights."""
