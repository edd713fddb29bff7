"""The web console: watch runs in a browser, at the coordinator or at a site."""
