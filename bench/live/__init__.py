"""Live captures: programs that run, are captured and analysed as by a user; the headline is compared with the truth."""
