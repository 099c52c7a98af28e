"""The sub-commands of `python -m asdf`; each is a module with `main(arguments) -> exit status`."""
