"""The version of ASDF, written into every file that it produces."""

VERSION = "0.2.0"
