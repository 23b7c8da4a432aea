"""A report of runs as one HTML file: what it is made of, how that reads as a page, and the page's markup and curves."""
