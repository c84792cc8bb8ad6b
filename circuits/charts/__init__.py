"""Every figure of the app: arrays in, ``alt.Chart`` out.  Nothing is computed here and nothing is shown here."""
