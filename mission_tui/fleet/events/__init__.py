"""The facts a run is known by: lines of its two files, what is seen of it live, and the values these carry."""
