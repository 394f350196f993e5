"""The laboratory in a page: the simulator in one HTML file, served on loopback or written to a file.

`make lab` builds `lab.html` of this folder. `page.py` puts a scenario into it, `server.py` serves it.
"""
