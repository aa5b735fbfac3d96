"""What is studied: settings with their reasons, networks and methods."""
