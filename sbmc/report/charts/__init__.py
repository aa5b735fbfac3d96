"""Charts as inline SVG, drawn by our own code: lines, bars, dots, heat maps and a spider."""
