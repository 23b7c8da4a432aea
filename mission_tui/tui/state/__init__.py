"""What the screen knows, was told and asks for; the app context, by which all of it is reached. Nothing here draws."""
