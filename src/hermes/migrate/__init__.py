"""From CUDA code to a program that runs on Ascend: scan a source tree, convert it, verify it, place its ranks on cores.

Other rooms import `hermes.migrate.api` only.
"""
