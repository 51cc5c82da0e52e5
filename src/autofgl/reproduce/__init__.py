"""The papers' tables, run again: which cells they have, what is missing, paper beside ours."""
