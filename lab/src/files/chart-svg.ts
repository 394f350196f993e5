/** A chart as an SVG document for papers and slides: dark text on white, with a legend. */

import type { View } from "../charts/chart";
import type { Kind, Line } from "../charts/kinds";
import { indexes, thinned } from "../charts/thin";
import type { Store } from "../store";
import { digits } from "../units";

const WIDTH = 640;
const PLOT = { left: 56, top: 34, right: 16, height: 220 };
const LEGEND_COLUMN = 190;
const MAX_POINTS = 2400;
const TICKS = 5;

export function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}

/** Round values between two limits, about as many as `TICKS`. */
export function ticks(low: number, high: number): number[] {
  const raw = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw) ?? 10);
  const found: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}

export function chartSvg(kind: Kind, store: Store, lines: Line[], view: View): string {
  const range = { from: store.indexBefore(view.from_s), to: Math.max(0, store.indexBefore(view.to_s)) };
  const at = indexes(range, MAX_POINTS);
  const series = lines.map((line) => thinned(line.values, at, line.factor));
  const high = 1.05 * Math.max(1e-9, ...series.map((values) => values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0)));
  const innerWidth = WIDTH - PLOT.left - PLOT.right;
  const x = (time: number) => PLOT.left + ((time - view.from_s) / (view.to_s - view.from_s)) * innerWidth;
  const y = (value: number) => PLOT.top + (1 - value / high) * PLOT.height;
  const perRow = Math.max(1, Math.floor((WIDTH - PLOT.left) / LEGEND_COLUMN));
  const legendTop = PLOT.top + PLOT.height + 44;
  const height = legendTop + 18 * Math.ceil(lines.length / perRow);
  const grid = [
    ...ticks(0, high).map((value) => `<path d="M${PLOT.left},${y(value).toFixed(1)}h${innerWidth}" stroke="#ddd"/><text x="${PLOT.left - 6}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">${digits(value)}</text>`),
    ...ticks(view.from_s, view.to_s).map((time) => `<path d="M${x(time).toFixed(1)},${PLOT.top}v${PLOT.height}" stroke="#ddd"/><text x="${x(time).toFixed(1)}" y="${PLOT.top + PLOT.height + 16}" text-anchor="middle">${digits(time)}</text>`),
  ];
  const curves = lines.map((line, index) => {
    let path = "";
    let isDown = false;
    series[index]!.forEach((value, point) => {
      if (value === null) {
        isDown = false;
        return;
      }
      path += `${isDown ? "L" : "M"}${x(store.time_s[at[point]!]!).toFixed(1)},${y(value).toFixed(1)}`;
      isDown = true;
    });
    const dash = line.dash.length > 0 ? ` stroke-dasharray="${line.dash.join(" ")}"` : "";
    return `<path d="${path}" fill="none" stroke="${line.colour}" stroke-width="${line.width}"${dash}/>`;
  });
  const legend = lines.map((line, index) => {
    const left = PLOT.left + (index % perRow) * LEGEND_COLUMN;
    const top = legendTop + 18 * Math.floor(index / perRow);
    const dash = line.dash.length > 0 ? ` stroke-dasharray="${line.dash.join(" ")}"` : "";
    return `<path d="M${left},${top - 4}h22" stroke="${line.colour}" stroke-width="2"${dash}/><text x="${left + 28}" y="${top}">${escape(line.label)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="DejaVu Sans, sans-serif" font-size="11" fill="#222">`,
    `<rect width="${WIDTH}" height="${height}" fill="#fff"/>`,
    `<text x="${PLOT.left}" y="20" font-size="13" font-weight="bold">${escape(kind.title)} in ${kind.unit}</text>`,
    ...grid,
    `<clipPath id="inside"><rect x="${PLOT.left}" y="${PLOT.top}" width="${innerWidth}" height="${PLOT.height}"/></clipPath>`,
    `<g clip-path="url(#inside)">`,
    ...curves,
    "</g>",
    `<text x="${PLOT.left + innerWidth}" y="${PLOT.top + PLOT.height + 30}" text-anchor="end">time in s</text>`,
    ...legend,
    "</svg>",
  ].join("\n");
}
