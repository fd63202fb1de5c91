"""The pipeline of an analysis: the stages that lead from input paths to a report."""
