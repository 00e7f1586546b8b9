"""The two widgets: a pane that draws a document by line, and the line at the bottom that takes text."""
