"""Id rules: layer ids to states, and back, by engine, version and model class."""
