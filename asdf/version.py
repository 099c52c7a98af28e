"""The version of ASDF, which stands in everything that it writes."""

VERSION = "0.2.0"
