"""hsforensics: which hidden states was a drafter trained on, which ones is it served, and how to repair it.

The public functions are one for each command, in ``hsforensics.flows``; they return the frozen records of
``hsforensics.results``. Importing this package imports no torch.
"""

__version__ = "0.1.0"
