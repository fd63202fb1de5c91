"""What all wings speak: tables of a profile, measures, findings, plans and reports."""
