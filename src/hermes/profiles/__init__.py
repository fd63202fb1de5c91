"""What a job left behind: read, aligned, measured, judged, replayed, advised on and compared."""
