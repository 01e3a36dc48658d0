"""Machine code that ships (cubins, fat binaries, libraries, wheels) as programs for the ordering audit."""
