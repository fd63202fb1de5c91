"""Training programs with a planted cause and its fix: one file a subject, one generator a program, one step a yield.

They are users' code: PyTorch and the standard library, nothing of Hermes and nothing of one another. `child.py` loads
a file by its path and runs one program of it. `slow` chooses between the program with the cause and the same without.
"""
