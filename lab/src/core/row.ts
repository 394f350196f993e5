/** Samples as rows of numbers, which go from the worker to the page faster than objects. */

import type { DirectionSample, Sample } from "./types";

/** Numbers of a path, a flow without its paths, and a direction of a link; the row's first two are its length and time. */
export const PATH_FIELDS = 7;
export const FLOW_FIELDS = 3;
export const DIRECTION_FIELDS = 4;
export const HEAD_FIELDS = 2;

/** Sum of the counts of a table. */
export function sum(counts: Record<string, number>): number {
  let total = 0;
  for (const name in counts) total += counts[name]!;
  return total;
}

/** Appends the row of a sample; a value that does not exist is NaN. */
export function pushRow(into: number[], sample: Sample): void {
  const begin = into.length;
  into.push(0, sample.now_ns);
  for (const flow of sample.flows) {
    into.push(flow.delivered_bytes, flow.reordering_buffer_bytes, flow.paths.length);
    for (const path of flow.paths) {
      into.push(
        path.cwnd_bytes,
        path.ssthresh_bytes ?? NaN,
        path.srtt_s ?? NaN,
        path.in_flight_bytes,
        path.delivered_bytes,
        path.retransmissions,
        path.usable ? 1 : 0,
      );
    }
  }
  for (const link of sample.links) {
    pushDirection(into, link.forward);
    pushDirection(into, link.reverse);
  }
  into[begin] = into.length - begin;
}

function pushDirection(into: number[], direction: DirectionSample): void {
  into.push(direction.queue_packets, direction.queue_bytes, sum(direction.drops), direction.sent_bytes);
}
