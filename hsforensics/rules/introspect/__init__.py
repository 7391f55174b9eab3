"""The id rule of an SGLang that lies here, read out of its own code instead of out of our tables."""
