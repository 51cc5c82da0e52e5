"""Ways of carrying calls from the server to its parties."""
