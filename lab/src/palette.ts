/** Colours of series: those of the package's figures, which differ also with colour blindness, and lighter ones for dark. */

const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#4D4D4D"] as const;
const DARK = ["#4AA8E8", "#F2803A", "#2FC79B", "#E3A0C6", "#F5BD41", "#9AD6F7", "#B794D6", "#BFC6CF"] as const;
const DASHES: readonly number[][] = [[], [7, 4], [2, 3], [7, 3, 2, 3]];

export interface Look {
  colour: string;
  dash: number[];
}

/** Whether the page is shown in dark colours at present. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  if (chosen !== undefined) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Colour and dashes of the n-th series; the first 32 combinations differ. */
export function look(index: number, dark = isDark()): Look {
  const colours = dark ? DARK : LIGHT;
  return {
    colour: colours[index % colours.length]!,
    dash: DASHES[Math.floor(index / colours.length) % DASHES.length]!,
  };
}

/** The present value of a custom property of the page's style. */
export function tone(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
