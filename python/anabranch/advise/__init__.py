"""Settings for given links: a search over runs in the simulator, with the commands that apply the answer."""
