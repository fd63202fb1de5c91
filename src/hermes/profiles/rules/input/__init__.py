"""Rules about the input pipeline: waiting for batches, saving, and tensors made from sequences."""
