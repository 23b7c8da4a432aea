"""The screen in a browser: who may see it, what keys do there, and what is left when browser or server go."""
