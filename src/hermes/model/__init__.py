"""The shared data model: tables of a profile, measures, findings, plans and reports."""
