"""Screens: each owns a layout and one reactive, the snapshot. Questions to the person are modal sheets."""
