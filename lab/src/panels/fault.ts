/** The element that shows a sentence about bad input or a missing feature. */

import { byId, setText } from "../dom";

export function showFault(message: string): void {
  const box = byId("fault");
  setText(box, message);
  box.hidden = false;
}

export function clearFault(): void {
  byId("fault").hidden = true;
}
