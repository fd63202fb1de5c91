"""Moves CUDA programs to Ascend: scans a source tree, converts it, verifies it, and places its ranks on cores.

Other packages import only `hermes.migrate.api`.
"""
