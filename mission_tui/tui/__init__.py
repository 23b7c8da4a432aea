"""The screen: the only room that imports Textual. `entry.run` is its door; importing the package imports nothing.

From above to below, and nobody knows who is above:
`entry` looks at the terminal and loads Textual; `session` plays the app with a real supervisor behind it.
`app` wires snapshots to screens and keys to verbs; `snapshot_arrivals` says when a snapshot is drawn.
`verbs` carry out keys: they ask the supervisor, and the person by a screen.
`screens` own a layout and what it is filled with; questions are modal sheets.
`widgets` draw one part of a screen each.
`plot` draws curves, `sections` turn what is known of a run into lines; both are pure.
`state` is what is known and chosen, and the asking for it; the app context is handed to whoever asks.
`actions` is the table of keys, `client` the supervisor as the screen uses it.
`drawing` has colours, glyphs, numbers and lines.
`terminal` is what the terminal takes and sends, `textual_fixes` what Textual does otherwise than is needed here.
"""
