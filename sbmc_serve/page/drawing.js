// From strokes to the small picture that the network sees. No document is needed here.
//
// The data set's pictures were made so: each scanned digit was normalised to a box of 20 × 32 black or white
// points, thin strokes were thickened and thick ones thinned, and the black points in each block of 4 × 4 were
// counted. The same is done to strokes here. A stroke is a list of points [x, y], each from 0 to 1.

export const BLOCK = 4; // points a cell has on each side
export const FULL = BLOCK * BLOCK; // the count of a cell that is full of ink

// How pictures of a size are normalised. `box` is the part of the width and of the height that a drawing fills;
// `wider` and `taller` bound how much more it is stretched in one direction than in the other; the first of the
// `pens` (radii, in points) by which `ink` of all points are black is taken.
const DIGITS = {
  box: [0.625, 1],
  wider: 1.3,
  taller: 2.5,
  pens: [1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.25, 3.5, 3.75, 4],
  ink: 0.3,
};
// Larger pictures have a margin and a pen of one width, as those of MNIST do.
const LARGER = { box: [5 / 7, 5 / 7], wider: 1, taller: 1, pens: [4.5], ink: 0 };
const SMALLEST = 0.25; // a drawing below this part of the field, such as a dot, is not enlarged to the box

export const styleOf = (rows, columns) => (rows <= 16 && columns <= 16 ? DIGITS : LARGER);

// A smooth curve through points: a Catmull-Rom spline, by which the stored examples are drawn.
export function smooth(points, pieces = 8) {
  const curve = [points[0]];
  for (let i = 0; i + 1 < points.length; i += 1) {
    const [a, b] = [points[Math.max(i - 1, 0)], points[i]];
    const [c, d] = [points[i + 1], points[Math.min(i + 2, points.length - 1)]];
    for (let piece = 1; piece <= pieces; piece += 1) {
      const t = piece / pieces;
      curve.push([0, 1].map((axis) => 0.5 * (2 * b[axis] + (c[axis] - a[axis]) * t
        + (2 * a[axis] - 5 * b[axis] + 4 * c[axis] - d[axis]) * t * t
        + (3 * b[axis] - a[axis] - 3 * c[axis] + d[axis]) * t * t * t)));
    }
  }
  return curve;
}

// Which points of a bitmap are black: those within `radius` of a stroke that was moved and stretched to the box.
export function bitmap(strokes, height, width, style, radius) {
  const black = new Uint8Array(height * width);
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (const stroke of strokes) {
    for (const point of stroke) {
      for (const axis of [0, 1]) {
        low[axis] = Math.min(low[axis], point[axis]);
        high[axis] = Math.max(high[axis], point[axis]);
      }
    }
  }
  const middle = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
  let across = (style.box[0] * width - 2 * radius) / Math.max(high[0] - low[0], 1e-9);
  let down = (style.box[1] * height - 2 * radius) / Math.max(high[1] - low[1], 1e-9);
  across = Math.min(across, style.wider * down);
  down = Math.min(down, style.taller * across);
  across = Math.min(across, width / SMALLEST);
  down = Math.min(down, height / SMALLEST);
  const reach = radius * radius;

  for (const stroke of strokes) {
    const path = stroke.map(([x, y]) => [(x - middle[0]) * across + width / 2, (y - middle[1]) * down + height / 2]);
    if (path.length === 1) path.push(path[0]);
    for (let i = 0; i + 1 < path.length; i += 1) {
      const [ax, ay] = path[i];
      const [bx, by] = path[i + 1];
      const [dx, dy] = [bx - ax, by - ay];
      const length = dx * dx + dy * dy;
      // Points farther away than the pen is wide need not be looked at.
      const top = Math.max(0, Math.floor(Math.min(ay, by) - radius) - 1);
      const bottom = Math.min(height - 1, Math.ceil(Math.max(ay, by) + radius) + 1);
      const left = Math.max(0, Math.floor(Math.min(ax, bx) - radius) - 1);
      const right = Math.min(width - 1, Math.ceil(Math.max(ax, bx) + radius) + 1);
      for (let row = top; row <= bottom; row += 1) {
        for (let column = left; column <= right; column += 1) {
          const [x, y] = [column + 0.5, row + 0.5];
          const along = length > 0 ? Math.min(Math.max(((x - ax) * dx + (y - ay) * dy) / length, 0), 1) : 0;
          const [ex, ey] = [x - (ax + along * dx), y - (ay + along * dy)];
          if (ex * ex + ey * ey <= reach) black[row * width + column] = 1;
        }
      }
    }
  }
  return black;
}

// The count of black points in each cell, from 0 to FULL, row by row.
export function shrink(strokes, rows, columns) {
  const counts = new Array(rows * columns).fill(0);
  if (!strokes.some((stroke) => stroke.length)) return counts;
  const [height, width] = [rows * BLOCK, columns * BLOCK];
  const style = styleOf(rows, columns);
  let black;
  for (const pen of style.pens) {
    black = bitmap(strokes, height, width, style, pen);
    if (black.reduce((sum, each) => sum + each, 0) >= style.ink * height * width) break;
  }
  black.forEach((each, at) => {
    const [row, column] = [Math.floor(at / width), at % width];
    counts[Math.floor(row / BLOCK) * columns + Math.floor(column / BLOCK)] += each;
  });
  return counts;
}

// Counts as numbers in the shape that the network takes; pictures of several channels are grey.
export function toInput(counts, shape, low, high) {
  const rows = shape[shape.length - 2];
  const columns = shape[shape.length - 1];
  const values = counts.map((count) => low + (high - low) * (count / FULL));
  const picture = Array.from({ length: rows }, (_, row) => values.slice(row * columns, (row + 1) * columns));
  return shape.slice(0, -2).reduceRight((inner, size) => Array.from({ length: size }, () => inner), picture);
}
