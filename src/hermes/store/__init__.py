"""Finds the files of the input folder that a user names, and caches tables read from these files in another folder."""
