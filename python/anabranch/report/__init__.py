"""Reports of a study: a table on the terminal, and Markdown with figures."""
