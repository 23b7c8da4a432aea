"""Workarounds for Textual, all of them written against 8.2.8. When `constraints.txt` takes another version, each is
tried without, and goes where its test then passes.

- `hangup`: the input thread spins when the terminal is gone (Textualize/textual#6690, a pull request that is open). It
  may go with the release that has it, except for output that blocks: `tests/tui/test_terminal.py`.
- `memory`: widgets' lines are kept by a cache of methods (Textualize/textual#6665); of themes' watchers, empty holders
  of toasts and strips that are cut into themselves nothing is reported there. `tests/tui/test_closed_screens.py`.
- `loading`: the application imports its command palette and what that is made of (Textualize/textual#3754).
  `tests/tui/test_entry.py`, and the first paint of `make bench`.
- `escape_key`: an Esc in pasted text ends the paste, and what follows is pressed; Esc and a key close behind it are Alt
  with that key. Nothing is reported there. `tests/tui/test_escape_key.py`.
- `cell_diff`: lines are written from their widget's left edge, and styles anew for each piece; nothing is reported
  there. It may go when the bytes of the screen in `make bench` are as few without it.
- `one_shot`: a timer that is to go off once never does where its moment is past when Textual looks; nothing is reported
  there. `tests/tui/test_one_shot.py`.
- `screen_cells`: a screen is exported only through Rich, as an SVG that loads its font from the net; nothing is
  reported there. It may go when the cells of a screen can be asked for. `tests/tui/test_pictures.py`.
"""
