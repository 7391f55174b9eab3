"""The capture store on disk, and one file for each engine that can fill it."""
