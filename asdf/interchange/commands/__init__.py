"""The commands that turn networks into other layouts and back: `export` and `import`."""
