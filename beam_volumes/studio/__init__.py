"""An editor of recipes in the browser, with live sections of a region, and the logic behind it."""
