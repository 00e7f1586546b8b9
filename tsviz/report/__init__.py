"""One offline HTML file about a trace (debugger.md, section 7). The only room that imports plotly.

Numbers come from the views of the query room and from the findings and blame of replay; here they become sentences,
charts and tables. Nothing of a trace reaches the page but through `text.py`.
"""
