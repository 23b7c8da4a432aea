"""What a run is asked to be: presets and `--set` words become one typed, checked `Spec`."""
