/** The picture of the network as a document of its own, with the present colours written into it. */

const COPIED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "paint-order", "stroke-linecap"] as const;

/** Layers of equal size, from the lowest up, in one document. */
export function networkSvg(layers: SVGSVGElement[]): string {
  const copies = layers.map(withStyle);
  const copy = copies[0]!;
  for (const upper of copies.slice(1)) copy.append(...upper.children);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("font-family", "DejaVu Sans, sans-serif");
  return new XMLSerializer().serializeToString(copy);
}

function withStyle(layer: SVGSVGElement): SVGSVGElement {
  const copy = layer.cloneNode(true) as SVGSVGElement;
  const copies = [copy, ...copy.querySelectorAll("*")];
  [layer, ...layer.querySelectorAll("*")].forEach((original, index) => {
    const style = getComputedStyle(original);
    const element = copies[index]!;
    for (const name of COPIED) element.setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) element.removeAttribute(name);
  });
  return copy;
}
