"""Id rules: what layer ids mean for an engine, a version and a model class. Data first."""
