"""The package's version, for whoever may not import the package itself."""

__version__ = "0.2.0"
