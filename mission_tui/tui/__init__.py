"""The screen: the only room that imports Textual. `entry.run` opens it; importing the package imports nothing.

The layers, from above to below; none knows the ones above it:
`entry` checks the terminal and loads Textual; `session` runs the app with a real supervisor.
`app` wires snapshots to screens and keys to verbs; `snapshot_arrivals` decides when a snapshot is drawn.
`verbs` carry out keys: they ask the supervisor, and the person through a screen.
`screens` own a layout and fill it; questions are modal sheets.
`widgets` each draw one part of a screen.
`plot` draws curves, `sections` turn what is known of a run into lines; both are pure.
`state` holds what is known and chosen, and requests it; the app context gives access to it.
`actions` is the table of keys, `client` the supervisor as the screen uses it.
`drawing` has colours, glyphs, numbers and lines.
`terminal` paces output and keys, `textual_fixes` works around Textual.
"""
