"""Each pane as a pure function `(scene, width, height) -> Document`."""
