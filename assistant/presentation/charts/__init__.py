"""Charts as Vega-Lite specifications, one module per subject; `vega_lite` has the common parts."""
