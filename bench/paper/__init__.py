"""Cases that a published system reports: figures before and after its fix, and the prediction of Hermes."""
