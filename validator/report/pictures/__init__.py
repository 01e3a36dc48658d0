"""Pictures of the page as inline SVG, drawn with drawsvg.

Colours are classes that the page's style sheet knows, so that light, dark and paper work; each picture says in a
sentence what it shows, for whoever cannot see it.
"""
