"""Captures jobs that were started without Hermes, by the protocol of Kineto's daemon."""
