"""How attempts end: by themselves, by the ladder or by being frozen, and what dead ones leave behind."""
