"""An expansion service with the transforms for other SDKs; configurations and elements are rows."""
