"""Runs across real sites: kits, what a site allows, who coordinates."""
